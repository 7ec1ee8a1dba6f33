"""A mail filter: messages, lessons, decisions, and protocols of mail programs.

`client` and `bogofilter` are programs, which parse a command line and print.
"""

"""A mail filter: messages, lessons, decisions, and protocols of mail programs.

`client`, `quick` and `bogofilter` are programs, which parse a command line and print.
"""

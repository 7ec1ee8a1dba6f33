"""A mail filter: messages, lessons, decisions, and protocols of mail programs.

`client`, `bogofilter` and `trec` are programs, which parse a command line and print.
"""

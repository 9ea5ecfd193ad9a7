"""Executors: the command-line agents of others, called as they are."""

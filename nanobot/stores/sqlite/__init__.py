"""The store of a single machine: one SQLite file, written by one thread."""

from nanobot.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]

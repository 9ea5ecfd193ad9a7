"""Session files: one JSONL file a conversation, append-only, mended on loading."""

from nanobot.stores.sessions.manager import SessionManager
from nanobot.stores.sessions.session import Session

__all__ = ["Session", "SessionManager"]

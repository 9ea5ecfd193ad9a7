"""nanobot: a chat-bot gateway that answers every accepted message once."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nanobot.stores.sessions import Session, SessionManager

__version__ = "0.1.0"
__all__ = ["Session", "SessionManager", "__version__"]


def __getattr__(name: str) -> Any:
    # Lazy, so that `nanobot version` does not pay for what it does not use.
    if name in {"Session", "SessionManager"}:
        from nanobot.stores import sessions  # noqa: PLC0415

        return getattr(sessions, name)
    raise AttributeError(f"module 'nanobot' has no attribute {name!r}")

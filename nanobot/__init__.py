"""nanobot: a chat-bot gateway that answers every accepted message once."""

__version__ = "0.1.0"

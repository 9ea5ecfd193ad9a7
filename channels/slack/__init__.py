"""Slack: direct chats, channels and threads, by Socket Mode or HTTP events."""

from .adapter import SlackChannel, create

__all__ = ["SlackChannel", "create"]

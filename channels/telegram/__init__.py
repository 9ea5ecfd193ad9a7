"""The Telegram channel, on python-telegram-bot."""

from .adapter import TelegramChannel, create

__all__ = ["TelegramChannel", "create"]

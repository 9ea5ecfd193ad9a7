"""The Telegram channel, on python-telegram-bot."""

from . import library  # isort: skip - first
from .adapter import TelegramChannel, create

__all__ = ["TelegramChannel", "create", "library"]

"""The Telegram channel, on python-telegram-bot."""

from . import library  # isort: skip - first
from .adapter import TelegramChannel, create
from .checks import check

__all__ = ["TelegramChannel", "check", "create", "library"]

"""Telegram's Bot API on loopback, with its limits and its faults: `python -m tests.emulators.telegram --port 0`."""

from tests.emulators.telegram.faults import (
    Fault,
    drop_after,
    drop_before,
    flood,
    forbidden,
    hang,
    refuse,
    status,
)
from tests.emulators.telegram.server import TelegramServer
from tests.emulators.telegram.world import Chat, Posted

__all__ = [
    "Chat",
    "Fault",
    "Posted",
    "TelegramServer",
    "drop_after",
    "drop_before",
    "flood",
    "forbidden",
    "hang",
    "refuse",
    "status",
]

"""Choices under a message: `meta["buttons"]` of a reply becomes an inline keyboard, a press an inbound message."""

import hashlib
from typing import Any

from nanobot.channel import Inbound, Outbound, Port
from telegram import InlineKeyboardButton, InlineKeyboardMarkup

from .wire import Press, thread_of

STORED = "button:"
MAX_DATA = 64  # bytes of callback_data
MAX_LABEL = 60
PRESSED = "pressed"  # ends the id of a message that all presses under a question are
ROW = 30  # characters of labels side by side


class Buttons:
    """A button's value goes through the platform where it fits, else through the channel's keys.

    `#` leads to a key; `=` stands before the value of a command that is given once.
    """

    def __init__(self, port: Port) -> None:
        self._port = port

    async def keyboard(self, message: Outbound) -> InlineKeyboardMarkup | None:
        """Buttons are texts, or tables with `label` and `value`; the value is what the person says by pressing.

        A command's button stays and can be pressed again, unless its table says `once`.
        """
        rows: list[list[InlineKeyboardButton]] = []
        width = ROW + 1
        for label, value, once in choices(message.meta.get("buttons")):
            button = InlineKeyboardButton(label, callback_data=await self._data(value, once=once))
            if width + len(label) > ROW:
                rows.append([])
                width = 0
            rows[-1].append(button)
            width += len(label)
        return InlineKeyboardMarkup(rows) if rows else None

    async def read(self, press: Press, *, session: str = "") -> Inbound | None:
        """The message that a press stands for.

        A question is answered once: all presses under it are the same message, of which the first counts. Commands
        are controls, which may be used again unless they say otherwise.
        """
        message, sender = press.message, press.sender
        if message is None or message.chat is None or sender is None or not press.data:
            return None
        value: str | None = press.data
        if press.data.startswith("#"):
            value = await self._port.keys.get(STORED + press.data[1:])
        if not value:
            return None
        again = value.startswith("/")
        value = value.removeprefix("=")
        private = message.chat.type == "private"
        return Inbound(
            channel=self._port.name,
            message_id=f"{message.chat.id}:{message.message_id}:{press.id if again else PRESSED}",
            chat_id=str(message.chat.id),
            thread=thread_of(message),
            text=value,
            sender=str(sender.id),
            sender_name=sender.name,
            private=private,
            session=session,
            meta={} if private else {"reply_to": message.message_id},
        )

    async def _data(self, value: str, *, once: bool) -> str:
        value = f"={value}" if once or value.startswith("=") else value
        if len(value.encode()) <= MAX_DATA and not value.startswith("#"):
            return value
        digest = hashlib.sha256(value.encode()).hexdigest()[:32]
        await self._port.keys.set(STORED + digest, value)
        return f"#{digest}"


def answers(message: Inbound) -> bool:
    """Whether a press was the answer to a question: then its buttons have done their work."""
    return message.message_id.endswith(f":{PRESSED}")


def choices(buttons: Any) -> list[tuple[str, str, bool]]:
    """(label, value, once) of each; what is no button is left out."""
    found = []
    for one in buttons if isinstance(buttons, list | tuple) else ():
        label, value = (one.get("label"), one.get("value")) if isinstance(one, dict) else (one, one)
        if isinstance(label, str) and label.strip():
            value = value if isinstance(value, str) and value else label
            found.append(
                (label.strip()[:MAX_LABEL], value, isinstance(one, dict) and one.get("once") is True)
            )
    return found

"""Slash commands: one table, parsed once, the same in every chat."""

import difflib
import re
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from nanobot.channel import Command
from nanobot.messages import Inbound

_PATTERN = re.compile(r"^[/!]([A-Za-z][\w-]*)(?:@\w+)?(?:\s+(.*))?$", re.DOTALL)


class Invocation(msgspec.Struct, frozen=True):
    """A command as somebody wrote it. `argument` keeps its lines."""

    name: str
    argument: str
    message: Inbound
    seq: int = 0  # of its inbox row: what came before it can be told from what came after
    turn: str = ""  # the row's id: what a command made once is known by it when it is run again after a crash
    beside: bool = False  # it runs beside the session's turn


class Entry(msgspec.Struct, frozen=True):
    """A command of the table.

    `immediate` ones run beside a session's turn, not behind it. `interrupts`: what runs is stopped as soon as the
    command is accepted. `changes`: needs an approved person, not merely a member of an open group; `shows`: without
    an argument it only shows something, to everybody. `help` is what `/help <name>` says where a line is not enough.
    """

    name: str
    usage: str
    description: str
    run: Callable[[Invocation], Awaitable[str]]
    immediate: bool = False
    interrupts: bool = False
    changes: bool = False
    shows: bool = False
    help: str = ""


def parse(message: Inbound, seq: int = 0, turn: str = "", *, beside: bool = False) -> Invocation | None:
    """The command that a message of a person or of a schedule holds, or None for ordinary text.

    A path such as /usr/bin is text.
    """
    text = message.text.strip()
    if message.kind not in ("user", "schedule") or not text or text[0] not in "/!":
        return None
    found = _PATTERN.match(text)
    if found is None:
        return None
    if text[0] == "!" and message.channel != "slack":
        return None  # Slack keeps "/" for itself, so "!" stands for it there; elsewhere it is text
    return Invocation(found[1].lower(), (found[2] or "").strip(), message, seq, turn, beside)


class Commands:
    """The table, and what looks things up in it."""

    def __init__(self, approved: Callable[[Inbound], Awaitable[bool]] | None = None) -> None:
        self._approved = approved
        self._entries: dict[str, Entry] = {}
        self.add(
            [
                Entry(
                    "help", "/help [command]", "List the commands, or explain one", self._help, immediate=True
                )
            ]
        )

    def add(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._entries[entry.name] = entry

    def find(self, name: str) -> Entry | None:
        return self._entries.get(name)

    def immediate(self, invocation: Invocation) -> bool:
        """Whether it runs beside the session's turn; an unknown command is answered at once too."""
        entry = self._entries.get(invocation.name)
        return entry is None or entry.immediate

    async def run(self, invocation: Invocation) -> str:
        """What is answered; where people have to write commands with another sign, it says so."""
        answer = await self._answer(invocation)
        if sign(invocation) == "/":
            return answer
        return re.sub(rf"`/(?=(?:{'|'.join(self._entries)})\b)", f"`{sign(invocation)}", answer)

    async def _answer(self, invocation: Invocation) -> str:
        entry = self._entries.get(invocation.name)
        if entry is None:
            return self.unknown(invocation.name, sign(invocation))
        if (
            entry.changes
            and not (entry.shows and not invocation.argument)
            and not await self._may(invocation)
        ):
            return f"Only people whom the owner has let in may use /{entry.name} here."
        return await entry.run(invocation)

    async def _may(self, invocation: Invocation) -> bool:
        return self._approved is None or await self._approved(invocation.message)

    def unknown(self, name: str, mark: str = "/") -> str:
        near = difflib.get_close_matches(name, self._entries, n=1, cutoff=0.5)
        hint = f" Did you mean {mark}{near[0]}?" if near else ""
        return f"There is no command {mark}{name}.{hint} {mark}help lists them all."

    def menu(self) -> list[Command]:
        return [Command(entry.name, entry.usage, entry.description) for entry in self._entries.values()]

    async def _help(self, call: Invocation) -> str:
        wanted = self._entries.get(call.argument.lower().lstrip("/!"))
        if call.argument and wanted is None:
            return self.unknown(call.argument.lstrip("/!"), sign(call))
        if wanted is not None and wanted.help:
            return wanted.help
        shown = self._entries.values() if wanted is None else [wanted]
        return "\n".join(f"`{entry.usage}`: {entry.description}" for entry in shown)


def sign(call: Invocation) -> str:
    """What a command begins with in the chat it came from."""
    return "!" if call.message.channel == "slack" else "/"

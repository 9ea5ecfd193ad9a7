"""What a platform offers to take part: chats to say things in, what people see there, and ways in which it fails."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from tests.crash.chaos.plan import MARK, Fault, Say


class Seen(msgspec.Struct, frozen=True):
    """A reply as it stands in a chat. `id` is the outbox id where the platform shows it, else ""."""

    id: str
    text: str


class Chat(msgspec.Struct):
    """What was said in a chat, and what people saw, both in order."""

    key: str  # of its session
    said: list[Say] = []
    seen: list[Seen] = []
    strict: bool = (
        True  # the order of saying is the order of acceptance; a refused message may have been overtaken
    )

    def show(self, texts: Sequence[str]) -> None:
        """What people see there now."""
        self.seen[:] = [Seen("", text) for text in texts]


class Platform(Protocol):
    """One channel, seen from its users' side. Lives as long as the run; the gateway comes and goes."""

    name: str
    faults: Sequence[str]
    windows: bool  # a kill between a send and its mark may show a reply twice here, as documented
    problems: list[str]  # what no client should ever meet

    def config(self) -> str:
        """The channel's table for config.toml."""
        ...

    async def prepare(self) -> None:
        """Before the gateway's first start, and before `config`."""
        ...

    async def start(self, url: Callable[[], str]) -> None:
        """Begin; `url` gives the gateway's address, "" while there is none."""
        ...

    async def stop(self) -> None:
        """People leave; the gateway still runs."""
        ...

    async def close(self) -> None:
        """The gateway has stopped."""
        ...

    async def say(self, message: Say) -> None:
        """Say something; returns at once. From here on it is the platform's to bring it to the gateway."""
        ...

    def accepted(self) -> int:
        """How many messages the gateway has taken over."""
        ...

    def hit(self, fault: Fault, name: str) -> Callable[[], None] | None:
        """Begin a fault; returns what ends it, where it does not end by itself."""
        ...

    async def calm(self) -> None:
        """All faults are over: come back, catch up."""
        ...

    def chats(self) -> Sequence[Chat]: ...

    def same(self, seen: str, final: str) -> bool:
        """Whether a reply as seen is the history's final text."""
        ...


def alike(seen: str, final: str) -> bool:
    """Whether a text is another one in a platform's own markup."""
    marks = MARK.findall(final)
    if marks:
        return MARK.findall(seen) == marks
    return _letters(seen) == _letters(final)


def _letters(text: str) -> str:
    return "".join(letter for letter in text if letter.isalnum())

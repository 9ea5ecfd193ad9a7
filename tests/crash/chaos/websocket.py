"""The page's users: many connections, some of which ack, are slow, go away and come back."""

import asyncio
from collections.abc import Callable, Sequence

from tests.crash.chaos.page import Page, Place
from tests.crash.chaos.plan import Fault, Say
from tests.crash.chaos.users import Chat

CONNECTIONS = 16


class WebSocketUsers:
    """Implements `Platform`. Every second connection acks."""

    name = "websocket"
    windows = False
    faults: Sequence[str] = ("sockets dropped", "clients away", "clients do not read", "messages repeated")

    def __init__(self, chats: int) -> None:
        self.problems: list[str] = []
        self.pages: list[Page] = []
        self._chats = [Chat(f"websocket:chat{number}") for number in range(chats)]
        self._tasks: list[asyncio.Task[None]] = []

    def config(self) -> str:
        return "[channels.websocket]\nenabled = true\n"

    async def prepare(self) -> None:
        """Nothing: these users come to the gateway."""

    async def close(self) -> None:
        """Nothing is left."""

    async def start(self, url: Callable[[], str]) -> None:
        count = min(CONNECTIONS, len(self._chats))
        self.pages = [Page(url, acks=number % 2 == 0, problems=self.problems) for number in range(count)]
        for number, chat in enumerate(self._chats):
            self.pages[number % count].places[f"chat{number}"] = Place(chat)
        self._tasks = [asyncio.create_task(page.run()) for page in self.pages]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                self.problems.append(f"a client broke: {result!r}")

    async def say(self, message: Say) -> None:
        self._chats[message.chat].said.append(message)
        await self.pages[message.chat % len(self.pages)].say(message, f"chat{message.chat}")

    def accepted(self) -> int:
        return sum(len(page.receipts) for page in self.pages)

    def hit(self, fault: Fault, name: str) -> Callable[[], None] | None:
        until = asyncio.get_running_loop().time() + fault.seconds
        step = max(1, round(1 / fault.share))
        for page in self.pages[::step]:
            match name:
                case "sockets dropped":
                    page.drop()
                case "clients away":
                    page.away_until = until
                    page.drop()
                case "clients do not read":
                    page.deaf_until = until
                case "messages repeated":
                    page.repeat()
        return None

    async def calm(self) -> None:
        for page in self.pages:
            page.away_until = page.deaf_until = 0.0

    def chats(self) -> Sequence[Chat]:
        return self._chats

    def same(self, seen: str, final: str) -> bool:
        return seen == final

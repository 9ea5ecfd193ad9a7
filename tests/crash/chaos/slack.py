"""People in direct chats of an emulated Slack, whose sockets and calls fail."""

import asyncio
from collections.abc import Callable, Sequence

from tests.crash.chaos.plan import Fault, Say
from tests.crash.chaos.users import Chat, alike
from tests.emulators.slack import SlackServer
from tests.emulators.slack.events import Delivery


class SlackUsers:
    """Implements `Platform`. Events are sent again until acknowledged, each by itself, so they may overtake each other."""

    name = "slack"
    windows = False
    faults: Sequence[str] = ("sockets dropped", "network down", "429 storm", "answers lost", "acks lost")

    def __init__(self, chats: int, *, previews: bool = True) -> None:
        self._previews = previews
        self.problems: list[str] = []
        self.server = SlackServer()
        self.server.events.retries = (
            100_000  # the platform gives up after 3; what it never handed over proves nothing
        )
        self.server.events.ack_seconds = 2.0
        self._chats = [Chat(f"slack:DU{number}", strict=False) for number in range(chats)]
        self._ways: list[Delivery] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def config(self) -> str:
        return (
            f'[channels.slack]\nenabled = true\nbot_token = "{self.server.bot_token}"\nallow_from = ["*"]\n'
            f'app_token = "{self.server.app_token}"\napi_url = "{self.server.api_url}"\n'
            f"streaming = {str(self._previews).lower()}\n"
        )

    async def prepare(self) -> None:
        await self.server.__aenter__()
        for number in range(len(self._chats)):
            self.server.person(f"U{number}")

    async def start(self, url: Callable[[], str]) -> None:
        """The gateway comes to the platform, not the other way round."""

    async def stop(self) -> None:
        """The server goes on until the gateway has stopped."""

    async def close(self) -> None:
        await self.server.__aexit__()

    async def say(self, message: Say) -> None:
        self._chats[message.chat].said.append(message)
        _, ways = self.server.say(f"DU{message.chat}", f"U{message.chat}", message.text)
        self._ways += ways

    def accepted(self) -> int:
        return sum(1 for way in self._ways if way.ack is not None)

    def hit(self, fault: Fault, name: str) -> Callable[[], None] | None:
        times = max(1, round(fault.share * 20))
        match name:
            case "sockets dropped":
                self._spawn()
            case "network down":
                self.server.events.refusing = True
                self._spawn()
                self.server.fail("*", lost="before", times=1_000_000)
                return self._up
            case "429 storm":
                self.server.fail("*", retry_after=1, times=times)
            case "answers lost":
                self.server.fail("chat.postMessage", lost="after", times=max(1, times // 4))
                self.server.fail("chat.update", lost="after", times=times)
            case "acks lost":
                self.server.events.lose_acks += times
        return None

    def _spawn(self) -> None:
        task = asyncio.create_task(self.server.events.drop())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _up(self) -> None:
        self.server.events.refusing = False
        self.server.heal()

    async def calm(self) -> None:
        self._up()
        self.server.events.lose_acks = 0

    def chats(self) -> Sequence[Chat]:
        for number, chat in enumerate(self._chats):
            if chat.said:
                chat.show(self.server.workspace.shown(f"DU{number}"))
        return self._chats

    def same(self, seen: str, final: str) -> bool:
        return alike(seen, final)

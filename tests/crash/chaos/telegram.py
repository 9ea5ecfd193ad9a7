"""People in private chats of an emulated Telegram, whose network and limits fail."""

from collections.abc import Callable, Sequence

from tests.crash.chaos.plan import Fault, Say
from tests.crash.chaos.users import Chat, alike
from tests.emulators.telegram import faults
from tests.emulators.telegram.server import TelegramServer


class TelegramUsers:
    """Implements `Platform`. Telegram repeats an update until it is confirmed, and offers no way to look a send up."""

    name = "telegram"
    windows = True
    faults: Sequence[str] = ("network down", "429 storm", "answers lost", "calls lost")

    def __init__(self, chats: int) -> None:
        self.problems: list[str] = []
        self.server = TelegramServer()
        self._chats = [Chat(f"telegram:{number + 1}") for number in range(chats)]
        self._downs = 0

    def config(self) -> str:
        return (
            f'[channels.telegram]\nenabled = true\ntoken = "{self.server.token}"\napi_url = "{self.server.url}"\n'
            'allow_from = ["*"]\npoll_timeout = 5\n'
        )

    async def prepare(self) -> None:
        await self.server.start()

    async def start(self, url: Callable[[], str]) -> None:
        """The gateway comes to the platform, not the other way round."""

    async def stop(self) -> None:
        """The server goes on until the gateway has stopped."""

    async def close(self) -> None:
        await self.server.stop()

    async def say(self, message: Say) -> None:
        self._chats[message.chat].said.append(message)
        self.server.say(message.chat + 1, message.text)

    def accepted(self) -> int:
        waiting = sum(
            1 for one in self.server.world.updates if one["update_id"] >= self.server.updates.confirmed
        )
        return sum(len(one.said) for one in self._chats) - waiting

    def hit(self, fault: Fault, name: str) -> Callable[[], None] | None:
        times = max(1, round(fault.share * 20))
        match name:
            case "network down":
                self._downs += 1
                self.server.down = True
                return self._up
            case "429 storm":
                self.server.fail("*", faults.flood(1, times=times))
            case "answers lost":
                self.server.fail("sendmessage", faults.drop_after(times=max(1, times // 5)))
            case "calls lost":
                self.server.fail("sendmessage", faults.drop_before(times=times))
        return None

    def _up(self) -> None:
        self._downs -= 1
        self.server.down = self._downs > 0

    async def calm(self) -> None:
        self.server._faults.clear()

    def chats(self) -> Sequence[Chat]:
        for number, chat in enumerate(self._chats):
            if chat.said:
                chat.show(self.server.texts(number + 1))
        return self._chats

    def same(self, seen: str, final: str) -> bool:
        return alike(seen, final)

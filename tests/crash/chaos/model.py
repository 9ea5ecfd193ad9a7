"""A model server with weather."""

from typing import Any

import msgspec

from tests.crash.chaos.plan import MARK
from tests.emulators.model_server import Asked, Reply
from tests.emulators.openai import OpenAIServer

BY_NAME = {"model answers 500": 500, "model answers 429": 429}


class Weather(OpenAIServer):
    """Answers as its messages say, until a fault overrules them. Each answer names the message it is for."""

    def __init__(self, **options: Any) -> None:
        super().__init__(keep=0, **options)
        self.faults: list[str] = []
        self.port = 0
        self._downs = 0

    async def down(self) -> None:
        """Refuse connections, until `up` was called as often."""
        self._downs += 1
        await self.stop()

    async def up(self) -> None:
        self._downs = max(0, self._downs - 1)
        if self._downs:
            return
        self._hanging.clear()
        await self.start(self.port)
        self.port = self._runner.addresses[0][1] if self._runner else 0

    def _told(self, asked: Asked) -> Reply:
        reply = super()._told(asked)
        mark = MARK.search(asked.text)
        if mark and reply.text and mark[0] not in reply.text:
            reply = msgspec.structs.replace(reply, text=f"{reply.text} ({mark[0]})")
        for fault in self.faults:
            if fault == "model hangs":
                return Reply(hang=True, cut=True)  # a server that stops meanwhile gives no answer
            if fault == "model cuts streams":
                return msgspec.structs.replace(reply, cut=True)
            if fault in BY_NAME:
                return Reply(status=BY_NAME[fault], headers={"Retry-After": "1"})
        return reply

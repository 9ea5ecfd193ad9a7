"""A model provider on loopback that works on a goal as it is told to, for whole gateways."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence

import msgspec
from aiohttp import web

from tests.emulators.model_server import Asked, Call, Reply, directed
from tests.emulators.openai import OpenAIServer


class Worker(OpenAIServer):
    """A model that adds one line to a file in each of `turns` turns of a goal, and completes it in the last.

    What it does next follows from the conversation alone, so that a question that is asked again after a kill gets
    the same answer.
    """

    def __init__(self, turns: int, pause: float = 0.0) -> None:
        super().__init__()
        self.turns = turns
        self.pause = pause  # seconds before a turn's closing text
        self.before_call = 0.0  # and before its call
        self.last = asyncio.Event()  # the last turn is not answered before this is set
        self.last.set()

    def read(self, raw: bytes, headers: Mapping[str, str]) -> Asked:
        asked = super().read(raw, headers)
        body = msgspec.json.decode(raw)
        system = str(body["messages"][0]["content"])
        if "VERDICT" in system:
            return msgspec.structs.replace(asked, text="VERDICT: PASS", results=())
        if "<goal>" not in raw.decode() or "goal" not in asked.text:
            return asked
        number = int(found[1]) if (found := re.search(r"\(turn (\d+)\)", asked.text)) else 1
        return msgspec.structs.replace(asked, text=f"GOAL {number}\n{len(asked.results)}")

    def _told(self, asked: Asked) -> Reply:
        if asked.text == "VERDICT: PASS":
            return Reply("VERDICT: PASS")
        if not asked.text.startswith("GOAL "):
            return directed(asked, 1)
        number, results = (int(word) for word in asked.text.removeprefix("GOAL ").split("\n"))
        if results:
            last = asked.results[-1]
            return Reply(f"Turn {number}: {last}. Then comes {number + 1}.", first_delay=self.pause)
        if number >= self.turns:
            return Reply(
                calls=(Call(f"call_{number}", "complete_goal", '{"recap": "All lines are there."}'),)
            )
        command = msgspec.json.encode({"command": f"echo line {number} >> lines.txt"}).decode()
        return Reply(calls=(Call(f"call_{number}", "exec", command),), first_delay=self.before_call)

    async def _send(self, request: web.Request, reply: Reply, asked: Asked) -> web.StreamResponse:
        if asked.text.startswith(f"GOAL {self.turns}\n"):
            await self.last.wait()
        return await super()._send(request, reply, asked)


class Scripted(OpenAIServer):
    """A model whose answers are written down: one list for the agent, one for who verifies its goals."""

    def __init__(self, *turns: Reply, verdicts: Sequence[Reply] = ()) -> None:
        super().__init__()
        self.turns = list(turns)
        self.verdicts = list(verdicts)
        self._asked = asyncio.Event()

    async def until(self, true: Callable[[], bool], seconds: float = 10.0) -> None:
        """Return once something is true, which only a request can change."""
        async with asyncio.timeout(seconds):
            while not true():
                self._asked.clear()
                await self._asked.wait()

    def read(self, raw: bytes, headers: Mapping[str, str]) -> Asked:
        asked = super().read(raw, headers)
        system = str(msgspec.json.decode(raw)["messages"][0]["content"])
        return msgspec.structs.replace(asked, model="verifier" if "VERDICT" in system else "agent")

    def _told(self, asked: Asked) -> Reply:
        self._asked.set()
        if asked.model == "verifier":
            return self.verdicts.pop(0) if self.verdicts else Reply("VERDICT: PASS")
        return self.turns.pop(0) if self.turns else Reply("Nothing left to say.")

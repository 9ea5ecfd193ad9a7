"""One turn's view of its session: what the agent loop reads, appends, hears and runs."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from nanobot import history
from nanobot.agent import context
from nanobot.agent.loop import Draining
from nanobot.clock import Clock, deadline, stamp
from nanobot.errors import DeadlineExceeded
from nanobot.events import Event, ToolEnded, ToolProgress, ToolStarted
from nanobot.goal_turns import Rest
from nanobot.messages import Address, Inbound, Line
from nanobot.model import Model, ModelRequest, ToolCall
from nanobot.store import Claim, Row, Transcript
from nanobot.tool import ToolContext, ToolResult
from nanobot.tools.goal import NAMES
from nanobot.tools.toolbox import run_tool
from nanobot.workbench import Workbench

STORE_SECONDS = 30.0  # a store that takes longer is as good as broken
PREVIEW = 2_000  # characters of a tool's result that go to live views


class SessionConversation:
    """Implements `agent.loop.Conversation` over a transcript and a claim."""

    def __init__(
        self,
        claim: Claim,
        transcript: Transcript,
        bench: Workbench,
        model: Model,
        clock: Clock,
        emit: Callable[[Event], None],
        on_steered: Callable[[Sequence[Row]], Awaitable[None]],
        rest: Callable[[], Rest],
        on_failed: Callable[[ToolCall, ToolResult], Awaitable[None]],
        notes: Sequence[str] = (),
        objection: Callable[[str], str] = lambda _answer: "",
    ) -> None:
        self._claim = claim
        self._transcript = transcript
        self._bench = bench
        self._model = model
        self._clock = clock
        self._emit = emit
        self._on_steered = on_steered
        self._rest = rest  # of a goal's budget
        self._on_failed = on_failed
        self._notes = notes  # of a goal that is open, for the runtime context
        self._place = Path(transcript.metadata.get("working_dir") or bench.workspace)
        self.objection = objection  # a watcher's, to an answer that would end the turn
        # Both once a turn: the prefix that the provider has cached stays the same while the turn runs.
        self._system = bench.prompts.system(small=model.small)
        self._runtime = self._runtime_context(claim.rows[0].inbound)

    @property
    def address(self) -> Address:
        return self._claim.rows[0].inbound.address

    def request(self, extra: Sequence[Line], *, tools: bool, shrink: bool) -> ModelRequest:
        bench, transcript = self._bench, self._transcript
        offered = tools and not self._model.small and not self._rest().ends
        toolbox = bench.toolbox if self._notes else bench.everyday
        specs = toolbox.specs if offered else ()
        lines = history.for_models(
            context.spoken(transcript.messages, transcript.last_consolidated, transcript.metadata)
        )
        window = context.fit(
            lines,
            system_tokens=len(self._system) // 4,
            tool_tokens=bench.tool_tokens if specs else 0,
            context_window=self._model.context_window,
            max_output=bench.max_output(self._model),
        )
        if shrink:
            window = context.shrink(window)
        return ModelRequest(
            system=self._system,
            messages=[*window.lines, *extra] if extra else window.lines,
            tools=specs,
            context=self._runtime,
            max_output=bench.max_output(self._model),
            session=self._claim.session,
        )

    async def append(self, *lines: Line) -> None:
        async with deadline(STORE_SECONDS, "writing the history"):
            await self._bench.transcripts.append(self._transcript.key, lines)

    async def steer(self, *, only_nudges: bool = False) -> bool:
        if self._bench.draining:
            raise Draining
        async with deadline(STORE_SECONDS, "reading the inbox"):
            rows = await self._bench.inbox.steer(
                self._claim, only_nudges=only_nudges or not self._bench.steering
            )
        if not rows:
            return False
        await self._on_steered(rows)
        await self.append(*[user_line(row) for row in rows])
        return True

    async def use(self, call: ToolCall) -> Line:
        claim, address = self._claim, self.address
        where = (claim.session, claim.turn, address)
        started = time.monotonic()
        self._emit(ToolStarted(*where, call.id, call.name, shown_arguments(call.arguments)))
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            await asyncio.sleep(0)  # stopped by a watcher that just saw this call: nothing of it begins
        tool_context = ToolContext(
            session=claim.session,
            turn=claim.turn,
            call_id=call.id,
            address=address,
            workspace=self._place,
            say=lambda text: self._emit(ToolProgress(*where, call.id, call.name, text)),
        )
        result = await self._run(call, tool_context)
        self._bench.surroundings.touched(self._place)
        seconds = time.monotonic() - started
        self._emit(ToolEnded(*where, call.id, call.name, result.text[:PREVIEW], result.error, seconds))
        if result.error:
            await self._on_failed(call, result)
        line = result_line(claim.turn, call.id, call.name, result.text, self._clock)
        if result.error:
            line["error"] = True  # for people; a model reads the text
        if result.media:
            line["media"] = [msgspec.to_builtins(one) for one in result.media]
        return line

    async def _run(self, call: ToolCall, where: ToolContext) -> ToolResult:
        """No tool outlasts the minutes of the goal it works for; what is about the goal itself has its own time."""
        seconds = math.inf if call.name in NAMES else self._rest().seconds
        if seconds == math.inf:
            return await run_tool(self._bench.toolbox, call, where)
        try:
            async with deadline(seconds, call.name):
                return await run_tool(self._bench.toolbox, call, where)
        except DeadlineExceeded:
            text = (
                f"Error: {call.name} was ended, since the goal's minutes are used up; what it did is unknown"
            )
            return ToolResult(text, error=True)

    async def settle(self) -> None:
        """Close what an interruption left open: harmless calls run again, others get an honest result."""
        open_calls = history.unfinished(self._transcript.messages, self._claim.turn)
        for call in open_calls:
            tool = self._bench.toolbox.get(call.name)
            if tool is not None and (tool.read_only or tool.idempotent):
                await self.append(await self.use(call))
            else:
                await self.append(
                    result_line(self._claim.turn, call.id, call.name, history.INTERRUPTED, self._clock)
                )

    async def close_calls(self, reason: str) -> None:
        """Give every open call this result, so that the history is legal when the turn is stopped."""
        for call in history.unfinished(self._transcript.messages, self._claim.turn):
            await self.append(result_line(self._claim.turn, call.id, call.name, reason, self._clock))

    def _runtime_context(self, message: Inbound) -> str:
        return self._bench.prompts.runtime(
            self._clock.now(),
            message.address,
            message.sender_name or message.sender,
            [*self._bench.skill_bodies(message.text), *self._notes],
            private=message.private,
            facts=() if self._model.small else self._bench.surroundings.facts(self._place),
        )


def user_line(row: Row) -> Line:
    """An accepted message as a history line; its `turn` is its own inbox id, so that it is written once."""
    message = row.inbound
    line = Line(role="user", content=message.text, timestamp=stamp(row.accepted_at), turn=row.id)
    if message.media:
        line["media"] = [msgspec.to_builtins(one) for one in message.media]
    if not message.private:
        line["sender"] = message.sender_name or message.sender
    if message.kind != "user":
        line["injected"] = message.kind
    return line


def result_line(turn: str, call_id: str, name: str, text: str, clock: Clock) -> Line:
    return Line(
        role="tool", content=text, timestamp=stamp(clock.now()), turn=turn, tool_call_id=call_id, name=name
    )


def shown_arguments(text: str) -> dict[str, Any]:
    """A call's arguments for live views; malformed ones as they came."""
    try:
        parsed = msgspec.json.decode(text) if text.strip() else {}
    except msgspec.DecodeError:
        return {"arguments": text[:PREVIEW]}
    return parsed if isinstance(parsed, dict) else {"arguments": parsed}

"""Who looks at a goal before it counts as reached: the declared checks, then a fresh pair of eyes.

The verifier is a conversation of its own that knows the objective, the recap and the evidence, and may look at the
workspace with read-only tools. It lives in memory: after a crash complete_goal is called again.
"""

import re
from collections.abc import Callable, Sequence

import msgspec

from nanobot.agent import context, loop
from nanobot.clock import Clock, deadline, stamp
from nanobot.conversation import result_line
from nanobot.errors import DeadlineExceeded, ToolError
from nanobot.events import Event, Usage
from nanobot.goal import Goal
from nanobot.messages import Line, new_id
from nanobot.model import Model, ModelRequest, ToolCall
from nanobot.prompts import Prompts
from nanobot.tool import ToolContext
from nanobot.tools.toolbox import Toolbox, run_tool

CHECK_SECONDS = 300  # one command
JUDGE_SECONDS = 900.0
MAX_STEPS = 15
MAX_OUTPUT = 4_000  # tokens
SHOWN = 1_500  # characters of a failed check's output
_VERDICT = re.compile(r"VERDICT\W+(PASS|FAIL)\b", re.IGNORECASE)
AGAIN = "End with one line: `VERDICT: PASS`, or `VERDICT: FAIL` and the reason."


class Verdict(msgspec.Struct, frozen=True):
    passed: bool
    reason: str = ""
    tokens: int = 0


class Verifier:
    """Asks for verdicts. `model` gives a model by its name; None is the configured one."""

    def __init__(
        self, toolbox: Toolbox, model: Callable[[str | None], Model], prompts: Prompts, clock: Clock
    ) -> None:
        self._checks = toolbox
        looking = [name for name in toolbox.names if (one := toolbox.get(name)) and one.read_only]
        self._looking = toolbox.only(looking)
        self._model = model
        self._prompts = prompts
        self._clock = clock

    async def verify(
        self, goal: Goal, where: ToolContext, recap: str, evidence: str, *, model: str | None = None
    ) -> Verdict:
        """Raises ToolError where no verdict could be had; that is neither a yes nor a no."""
        for number, command in enumerate(goal.checks):
            where.say(f"checking: {command}")
            reason = await self._failure(command, f"{where.call_id}.check{number}", where)
            if reason:
                return Verdict(passed=False, reason=reason)
        where.say("a verifier looks at the result")
        try:
            async with deadline(JUDGE_SECONDS, "the verification"):
                return await self._judge(self._model(model), goal, where, recap, evidence)
        except DeadlineExceeded as error:
            raise ToolError(str(error), "call complete_goal again") from error

    async def _failure(self, command: str, call_id: str, where: ToolContext) -> str:
        arguments = msgspec.json.encode({"command": command, "timeout": CHECK_SECONDS}).decode()
        result = await run_tool(self._checks, ToolCall(call_id, "exec", arguments), where)
        if not result.error:
            return ""
        return f"the check `{command}` does not succeed:\n{result.text[-SHOWN:]}"

    async def _judge(
        self, model: Model, goal: Goal, where: ToolContext, recap: str, evidence: str
    ) -> Verdict:
        sub = f"verify:{goal.id}"
        examination = Examination(
            msgspec.structs.replace(where, session=sub, turn=new_id(), say=nothing),
            model,
            self._looking,
            self._prompts.text("goal_verify.md.j2", tools=self._looking.names),
            self._clock,
        )
        case = self._prompts.text(
            "goal_case.md.j2", objective=goal.asked or goal.objective, recap=recap, evidence=evidence
        )
        turn = loop.Turn(sub, examination.turn, where.address, nobody, f"{where.turn}.verify")
        for question in (case, AGAIN):
            await examination.append(Line(role="user", content=question, timestamp=stamp(self._clock.now())))
            outcome = await loop.run(turn, examination, model, self._clock, max_steps=MAX_STEPS)
            if outcome.status == "failed":
                raise ToolError(f"the verification failed: {outcome.text}", "call complete_goal again later")
            found = verdict_of(outcome.text, turn.usage)
            if found is not None:
                return found
            await examination.append(Line(role="assistant", content=outcome.text))
        return Verdict(False, "the verifier came to no verdict", spent(turn.usage))


class Examination:
    """The verifier's conversation; implements `agent.loop.Conversation` in memory."""

    def __init__(self, where: ToolContext, model: Model, toolbox: Toolbox, system: str, clock: Clock) -> None:
        self.turn = where.turn
        self._where = where
        self._model = model
        self._toolbox = toolbox
        self._system = system
        self._clock = clock
        self._lines: list[Line] = []

    def request(self, extra: Sequence[Line], *, tools: bool, shrink: bool) -> ModelRequest:
        window = context.fit(
            self._lines,
            system_tokens=len(self._system) // 4,
            tool_tokens=2_000,
            context_window=self._model.context_window,
            max_output=MAX_OUTPUT,
        )
        if shrink:
            window = context.shrink(window)
        return ModelRequest(
            system=self._system,
            messages=[*window.lines, *extra],
            tools=self._toolbox.specs if tools else (),
            max_output=MAX_OUTPUT,
            session=self._where.session,
        )

    async def append(self, *lines: Line) -> None:
        self._lines += lines

    async def steer(self) -> bool:
        return False

    async def use(self, call: ToolCall) -> Line:
        where = msgspec.structs.replace(self._where, call_id=call.id)
        result = await run_tool(self._toolbox, call, where)
        return result_line(self.turn, call.id, call.name, result.text, self._clock)


def verdict_of(text: str, usage: Usage) -> Verdict | None:
    """The last verdict that a text gives; None where it gives none."""
    found = list(_VERDICT.finditer(text))
    if not found:
        return None
    said = found[-1]
    passed = said[1].upper() == "PASS"
    reason = text[said.end() :].strip(" :*.-`\n") or text[: said.start()].strip()
    return Verdict(passed, "" if passed else reason or "no reason was given", spent(usage))


def spent(usage: Usage) -> int:
    return usage.input + usage.output


def nobody(_: Event) -> None:
    """The verifier's work is not shown."""


def nothing(_: str) -> None:
    """Nor what its tools say."""

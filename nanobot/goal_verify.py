"""Who looks at a goal before it counts as reached: the declared checks, then a fresh pair of eyes.

The verifier works in a sub-session of its own, one a goal, where each verification is a turn that knows nothing of the
others: only the objective, the recap and the evidence, and the workspace by read-only tools. People can read it like
any other session. It counts as nobody's child: a goal may be verified while all its helpers are at work. After a
crash complete_goal is called again.
"""

import re
import time
import uuid
from collections.abc import Callable, Sequence

import msgspec

from nanobot.agent import context, loop
from nanobot.child import CHANNEL
from nanobot.clock import Clock, deadline, stamp
from nanobot.conversation import STORE_SECONDS, result_line
from nanobot.errors import DeadlineExceeded, ToolError
from nanobot.events import Event, Usage
from nanobot.goal import Goal
from nanobot.messages import Line, new_id
from nanobot.model import Model, ModelRequest, ToolCall
from nanobot.prompts import Prompts
from nanobot.store import Transcripts
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
    usage: Usage = Usage()
    model: str = ""

    @property
    def tokens(self) -> int:
        return self.usage.input + self.usage.output


class Verifier:
    """Asks for verdicts. `model` gives a model by its name; None is the configured one."""

    def __init__(
        self,
        toolbox: Toolbox,
        model: Callable[[str | None], Model],
        prompts: Prompts,
        transcripts: Transcripts,
        clock: Clock,
    ) -> None:
        self._checks = toolbox
        looking = [name for name in toolbox.names if (one := toolbox.get(name)) and one.read_only]
        self._looking = toolbox.only(looking)
        self._transcripts = transcripts
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
        sub = session_of(where.session, goal)
        examination = Examination(
            msgspec.structs.replace(where, session=sub, turn=new_id(), say=nothing),
            model,
            self._looking,
            self._prompts.text("goal_verify.md.j2", tools=self._looking.names),
            self._transcripts,
            self._clock,
        )
        await examination.open(f"Verification: {goal.title}", where.session)
        case = self._prompts.text(
            "goal_case.md.j2", objective=goal.asked or goal.objective, recap=recap, evidence=evidence
        )
        turn = loop.Turn(
            sub, examination.turn, where.address, nobody, f"{where.turn}.verify", self._clock.monotonic()
        )
        for question in (case, AGAIN):
            await examination.ask(question)
            outcome = await loop.run(turn, examination, model, self._clock, max_steps=MAX_STEPS)
            if outcome.status == "failed":
                await examination.answered(outcome, turn.usage)
                raise ToolError(f"the verification failed: {outcome.text}", "call complete_goal again later")
            found = verdict_of(outcome.text, turn.usage)
            if found is not None or question is AGAIN:
                await examination.answered(outcome, turn.usage)
                verdict = found or Verdict(False, "the verifier came to no verdict", turn.usage)
                return msgspec.structs.replace(verdict, model=model.name)
            await examination.append(examination.line("assistant", outcome.text))
        raise AssertionError("unreachable: the second question always returns")


class Examination:
    """One verification; implements `agent.loop.Conversation` with nothing but its own lines before its eyes."""

    def __init__(
        self,
        where: ToolContext,
        model: Model,
        toolbox: Toolbox,
        system: str,
        transcripts: Transcripts,
        clock: Clock,
    ) -> None:
        self.turn = where.turn
        self._transcripts = transcripts
        self._began = time.monotonic()
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

    async def open(self, title: str, parent: str) -> None:
        async with deadline(STORE_SECONDS, "opening the verifier's history"):
            transcript = await self._transcripts.open(self._where.session)
            if transcript.metadata.get("parent") != parent:
                await self._transcripts.update(transcript.key, {"title": title, "parent": parent})

    async def ask(self, question: str) -> None:
        asked = self.line("user", question)
        asked["injected"] = "verification"
        await self.append(asked)

    async def answered(self, outcome: loop.Outcome, usage: Usage) -> None:
        """The turn's last line, as every session has it."""
        final = self.line("assistant", outcome.text)
        final["latency_ms"] = round((time.monotonic() - self._began) * 1000)
        final["model"] = self._model.name
        if usage != Usage():
            final["usage"] = msgspec.to_builtins(usage)
        if outcome.status != "completed":
            final["injected"] = outcome.status
        await self.append(final)

    def line(self, role: str, content: str) -> Line:
        return Line(role=role, content=content, timestamp=stamp(self._clock.now()), turn=self.turn)

    async def append(self, *lines: Line) -> None:
        self._lines += lines
        async with deadline(STORE_SECONDS, "writing the verifier's history"):
            await self._transcripts.append(self._where.session, lines)

    async def steer(self) -> bool:
        return False

    def objection(self, answer: str) -> str:  # noqa: ARG002 - nobody watches a verifier
        return ""

    async def use(self, call: ToolCall) -> Line:
        where = msgspec.structs.replace(self._where, call_id=call.id)
        result = await run_tool(self._toolbox, call, where)
        return result_line(self.turn, call.id, call.name, result.text, self._clock)


def session_of(parent: str, goal: Goal) -> str:
    """The key of the session in which a goal is verified."""
    return f"{CHANNEL}:{uuid.uuid5(uuid.NAMESPACE_URL, f'{parent}/verification/{goal.id}')}"


def verdict_of(text: str, usage: Usage) -> Verdict | None:
    """The last verdict that a text gives; None where it gives none."""
    found = list(_VERDICT.finditer(text))
    if not found:
        return None
    said = found[-1]
    passed = said[1].upper() == "PASS"
    reason = text[said.end() :].strip(" :*.-`\n") or text[: said.start()].strip()
    return Verdict(passed, "" if passed else reason or "no reason was given", usage)


def nobody(_: Event) -> None:
    """The verifier's work is not shown."""


def nothing(_: str) -> None:
    """Nor what its tools say."""

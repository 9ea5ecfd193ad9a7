"""What the goal tools do: implements `tools.goal.Desk` over the keeper of goals and the verifier."""

from collections.abc import Sequence
from typing import Any

import msgspec

from nanobot.errors import ToolError
from nanobot.goal import Goal, IllegalMove, Move, move
from nanobot.goal_turns import MAX_REFUSALS, refused
from nanobot.goal_verify import Verifier
from nanobot.goals import Goals
from nanobot.tool import ToolContext, ToolResult

AT_WORK = ("active", "waiting_user")


class GoalDesk:
    def __init__(self, goals: Goals, verifier: Verifier) -> None:
        self._goals = goals
        self._verifier = verifier

    async def refine(self, context: ToolContext, goal: str, ui_summary: str, checks: Sequence[str]) -> str:
        if not self._goals.leads(context.session, context.turn):
            raise ToolError(
                "only the user begins a goal, by writing /goal, and only its own turns may change it",
                "answer the message as usual",
            )
        present = await self._present(context)
        kept = present.checks[: present.declared]
        added = tuple(check for check in dict.fromkeys(checks) if check not in kept)
        await self._move(
            context,
            "edit",
            objective=goal,
            ui_summary=ui_summary or present.ui_summary,
            checks=(*kept, *added) if checks else present.checks,
        )
        return "Noted. Now work on it; it ends with complete_goal."

    async def complete(self, context: ToolContext, recap: str, evidence: str) -> ToolResult:
        present = await self._present(context)
        verdict = await self._verifier.verify(
            present, context, recap, evidence, model=await self._goals.model(context.session)
        )
        # A person may have paused or ended it meanwhile.
        present = await self._present(context)
        now = self._goals.clock.now()
        spent = present.spent.paying(verdict.tokens, self._goals.price(verdict.model, verdict.usage))
        present = msgspec.structs.replace(present, spent=spent)
        if verdict.passed:
            done = move(
                present,
                "complete",
                now,
                by=context.turn,
                recap=recap,
                evidence=evidence,
                percent=None,
                question="",
            )
            await self._goals.save(context.session, done, context.turn)
            return ToolResult(
                "Accepted: the goal is completed, and the user is sent your recap. End your turn."
            )
        if present.status != "active":
            raise ToolError(f"not accepted: {verdict.reason}", "wait for the user's answer")
        told = refused(present, verdict.reason, now, turn=context.turn)
        await self._goals.save(context.session, told, context.turn)
        count = len(told.refusals)
        text = f"Not accepted ({count} of {MAX_REFUSALS}): {verdict.reason}\n"
        if told.status == "blocked":
            text += "The user decides now. End your turn."
        else:
            text += "Mend this first; then call complete_goal again."
        return ToolResult(text, error=True, data={"refused": True})

    async def ask(self, context: ToolContext, question: str) -> str:
        present = await self._present(context)
        if present.status != "waiting_user":
            await self._move(context, "ask", question=question)
        elif present.question != question:
            raise ToolError("a question is waiting already", "end your turn; the answer comes by itself")
        return "Asked. End your turn; you are called again when the answer is here."

    async def report(self, context: ToolContext, text: str, percent: int | None) -> str:
        present = await self._present(context)
        self._goals.step(context.session, present, context.turn, text, percent)
        return "Shown."

    async def _present(self, context: ToolContext) -> Goal:
        present = await self._goals.load(context.session)
        if present is None:
            raise ToolError("there is no goal in this chat", "answer the message as usual")
        if present.status not in AT_WORK:
            raise ToolError(f"the goal is {present.status}", "end your turn")
        return present

    async def _move(self, context: ToolContext, what: Move, **fields: Any) -> None:
        try:
            await self._goals.move(context.session, what, turn=context.turn, by=context.turn, **fields)
        except IllegalMove as error:
            raise ToolError(str(error), "end your turn") from error

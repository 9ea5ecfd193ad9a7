"""The keeper of goals: reads and writes them in the sessions' metadata, and says what follows a turn.

Everything that must survive a crash is durable before the turn's commit, and the row that continues a goal is part of
that commit. Its message id is made of the goal, its run and the turn's number, so that asking twice changes nothing.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec
from loguru import logger

from nanobot import goal as rules
from nanobot import goal_texts
from nanobot.clock import Clock, stamp
from nanobot.events import Event, GoalChanged, Usage
from nanobot.goal import ENDED, Budget, Goal, IllegalMove, Malformed, Move
from nanobot.goal_facts import RESULT, Price, facts_of
from nanobot.goal_plan import NOTHING, Board, Later, Plan
from nanobot.goal_turns import Limits, Rest, after_turn, fumbled, last_turn, rest
from nanobot.messages import Inbound, Line
from nanobot.prompts import Prompts
from nanobot.store import Claim, Transcript, Transcripts

KIND: Literal["goal"] = "goal"
COMPLETE = "complete_goal"
DELEGATED_SECONDS = 300.0  # a goal looks after what it delegated this often; its end wakes it at once
# Seconds before a turn follows one that failed: a provider that is down for an hour does not end a night's work.
RETRY_SECONDS = (15.0, 60.0, 300.0, 900.0, 1_800.0)


class Goals:
    """All sessions' goals. `notice` is told of every change."""

    def __init__(
        self,
        transcripts: Transcripts,
        prompts: Prompts,
        clock: Clock,
        publish: Callable[[Event], None],
        *,
        budget: Budget | None = None,
        limits: Limits | None = None,
        board: Board | None = None,
        later: Later | None = None,
        retry_seconds: Sequence[float] = RETRY_SECONDS,
        busy: Callable[[str], int] = lambda _: 0,
        leave: Callable[[str, str, str], Awaitable[int]] | None = None,
        price: Price = lambda _model, _usage: None,
    ) -> None:
        """`leave` ends what works for a goal: (session, reason, goal's id)."""
        self.clock = clock
        self.budget = budget or Budget()
        self._transcripts = transcripts
        self._prompts = prompts
        self._publish = publish
        self._limits = limits or Limits()
        self._retry_seconds = retry_seconds
        self._later = later
        self._busy = busy  # how many sub-sessions of a session are at work beside it
        self._leave = leave
        self.price = price
        self._board = board
        self._active: set[str] = set()  # sessions whose goal was active when last seen
        self._led: dict[str, str] = {}  # session → the goal's own turn that was begun last
        self._steps: dict[str, tuple[str, int | None]] = {}  # reported, not yet written

    # --- reading ---------------------------------------------------------------------------------------------

    def of(self, transcript: Transcript) -> Goal | None:
        """A session's goal; None where there is none that can be read."""
        try:
            found = rules.read(transcript.metadata, self.budget)
        except Malformed:
            return None
        if found is not None and (step := self._steps.get(transcript.key)):
            found = msgspec.structs.replace(found, step=step[0], percent=step[1])
        return found

    async def load(self, key: str) -> Goal | None:
        """A session's goal; what cannot be read is put aside, once."""
        transcript = await self._transcripts.open(key)
        try:
            rules.read(transcript.metadata)
        except Malformed as error:
            logger.bind(session=key).warning("{}; it is kept as {}", error, rules.INVALID_KEY)
            metadata = transcript.metadata
            raw = metadata.get(rules.KEY, metadata.get(rules.OLD_KEY))
            await self._transcripts.update(
                key, {rules.KEY: None, rules.OLD_KEY: None, rules.INVALID_KEY: raw}
            )
        return self.of(transcript)

    async def model(self, key: str) -> str | None:
        """The name of the model that a session chose; None is the configured one."""
        name = (await self._transcripts.open(key)).metadata.get("model")
        return name if isinstance(name, str) else None

    def working(self, key: str) -> bool:
        """Whether an active goal was seen in this session; without touching the disk."""
        return key in self._active

    def silent(self, channel: str) -> bool:
        """Whether a goal's turns are not shown live in this channel."""
        return self._board is not None and self._board.wanted(channel)

    async def context(self, transcript: Transcript) -> Sequence[str]:
        """The goal's blocks for a turn's runtime context."""
        found = self.of(transcript)
        return [goal_texts.context(found)] if found is not None and found.open else []

    # --- changing --------------------------------------------------------------------------------------------

    async def save(self, key: str, goal: Goal, turn: str = "") -> Goal:
        """Write a goal; durable on return, and shown."""
        transcript = await self._transcripts.open(key)
        changes: dict[str, Any] = {rules.KEY: rules.stored(goal)}
        if rules.OLD_KEY in transcript.metadata:
            changes[rules.OLD_KEY] = None
        await self._transcripts.update(key, changes)
        self._steps.pop(key, None)
        self._note(key, goal)
        self.tell(key, goal, turn)
        return goal

    def tell(self, key: str, goal: Goal, turn: str) -> None:
        """Show how a goal stands."""
        if goal.address is not None:
            self._publish(GoalChanged(key, turn, goal.address, rules.shown(goal)))
        if goal.by in ("", goal.turn):
            self._show(goal)  # else at its turn's end, when that is counted

    def _show(self, goal: Goal) -> None:
        if self._board is not None:
            self._board.show(goal)

    async def begin(
        self,
        key: str,
        message: Inbound,
        turn: str,
        objective: str,
        checks: tuple[str, ...],
        *,
        budget: Budget | None = None,
    ) -> Goal:
        """Begin a goal with the message that `turn` names; the same one where a crash came in between."""
        present = await self.load(key)
        if present is not None and present.id == turn:
            return present
        if present is not None and present.open:
            raise IllegalMove(
                f"A goal is {rules.worded(present.status)} here already: {present.title}. "
                "`/goal edit <text>` changes it, `/goal cancel` ends it."
            )
        begun = rules.begin(
            turn,
            objective,
            self.clock.now(),
            budget=budget or self.budget,
            checks=checks,
            address=message.address,
            private=message.private,
        )
        return await self.save(key, msgspec.structs.replace(begun, wrapping=last_turn(begun)), turn)

    async def move(self, key: str, what: Move, *, turn: str = "", **fields: Any) -> Goal:
        """Let something happen to a session's goal. Raises IllegalMove, which says why not."""
        present = await self.load(key)
        if present is None:
            raise IllegalMove("There is no goal here. `/goal <objective>` begins one.")
        moved = rules.move(present, what, self.clock.now(), **fields)
        if what == "resume":
            moved = msgspec.structs.replace(moved, wrapping=last_turn(moved))
        return await self.save(key, moved, turn)

    async def halt(self, key: str) -> Goal | None:
        """Pause an active goal, as /stop does; None where there is none."""
        present = await self.load(key)
        if present is None or present.status not in ("active", "waiting_user"):
            return None
        return await self.save(key, rules.move(present, "pause", self.clock.now(), reason="stopped"))

    async def heard(self, key: str, turn: str) -> None:
        """Somebody wrote: what a goal waits for may have come, and what looked idle is not.

        A question is put to people when its turn ends, so what the same turn hears cannot be the answer.
        """
        present = await self.load(key)
        if present is None or not present.open or (present.status == "waiting_user" and present.by == turn):
            return
        stuck = present.status == "blocked" and not present.refusals
        if present.status == "waiting_user" or stuck:
            await self.save(key, rules.move(present, "answer", self.clock.now()), turn)
        elif present.status == "active" and present.idle:
            await self.save(key, msgspec.structs.replace(present, idle=0, repeats=0), turn)

    async def remaining(self, key: str) -> int | None:
        """Tokens that a session's unfinished goal has left; None where nothing limits it."""
        present = await self.load(key)
        if present is None or present.status in ENDED:
            return None
        return max(0, present.budget.tokens - present.spent.tokens)

    async def charge(self, key: str, tokens: int, goal: str = "", dollars: float | None = None) -> None:
        """Count what a sub-session used; what follows from it, the goal's next turn decides.

        `goal` is the one that it worked for: to that it is charged also when it has ended.
        """
        present = await self.load(key)
        if present is None or not tokens or (present.status in ENDED and present.id != goal):
            return
        await self.save(key, msgspec.structs.replace(present, spent=present.spent.paying(tokens, dollars)))

    async def leave(self, key: str, goal: Goal) -> Goal:
        """End what works for a goal that has ended; returns the goal with all that was used."""
        if goal.open or self._leave is None:
            return goal
        await self._leave(key, f"its goal is {goal.status}", goal.id)
        return await self.load(key) or goal

    async def fumbled(self, key: str, turn: str, problem: str) -> None:
        """A call of complete_goal failed."""
        present = await self.load(key)
        if present is not None and present.status == "active":
            await self.save(key, fumbled(present, problem, self.clock.now(), turn=turn), turn)

    def step(self, key: str, goal: Goal, turn: str, text: str, percent: int | None) -> None:
        """Note a step; it is written with the next change, so that a crash may lose it."""
        self._steps[key] = (text, percent)
        self.tell(key, msgspec.structs.replace(goal, step=text, percent=percent), turn)

    # --- turns -----------------------------------------------------------------------------------------------

    async def due(self, key: str, claim: Claim) -> bool:
        """Whether a row that continues a goal still has something to continue."""
        present = await self.load(key)
        notes = claim.rows[0].inbound.meta
        if present is None or present.id != notes.get("goal"):
            return False
        self._led[key] = claim.turn
        if claim.turn in (present.by, present.turn):
            return True  # it was under way when something ended it
        return present.status == "active" and present.number == notes.get("number")

    async def takes(self, key: str, claim: Claim) -> Literal["no", "turn", "note"]:
        """Whether a result that a sub-session brings is for a goal.

        While the goal is worked on, it leads one of the goal's turns. While the goal waits or is halted, and when it
        has ended, the result is only noted in the history: nothing is worked at, and nobody is written to. What a
        person had delegated is answered like a message.
        """
        lead = claim.rows[0].inbound
        if lead.kind != RESULT or not lead.meta.get("goal"):
            return "no"
        present = await self.load(key)
        if present is None:
            return "no"
        if present.id != lead.meta["goal"]:
            return "note"
        under_way = claim.turn in (present.by, present.turn)
        if not (present.status == "active" or under_way):
            return "note"
        self._led[key] = claim.turn
        return "turn"

    def helpers(self, key: str) -> int:
        """How many sub-sessions are at work beside a session."""
        return self._busy(key)

    def leads(self, key: str, turn: str) -> bool:
        """Whether a turn is one of the goal's own."""
        return self._led.get(key) == turn

    async def working_for(self, key: str, turn: str) -> str:
        """The id of the goal whose own turn this is; empty where it is a person's."""
        present = await self.load(key) if self.leads(key, turn) else None
        return present.id if present is not None else ""

    def rest(self, transcript: Transcript, usage: Usage, seconds: float) -> Rest:
        """What one of the goal's turns may still do that has used this much and worked so long."""
        present = self.of(transcript)
        if present is None or present.status != "active":
            return Rest(ends=True)
        return rest(present, usage.input + usage.output, seconds + self._rested(present, seconds))

    async def after(
        self, key: str, claim: Claim, transcript: Transcript, final: Line, heard: Sequence[Inbound]
    ) -> Plan:
        """What follows a turn whose final line is written. `heard` is all it took in, also while it ran."""
        present = await self.load(key)
        if present is None:
            return NOTHING
        lead = claim.rows[0].inbound
        own = lead.kind in (KIND, RESULT) and lead.meta.get("goal") == present.id
        if lead.kind == RESULT and not (present.open or claim.turn in (present.by, present.turn)):
            own = False
        delegated = False
        if own:
            facts = facts_of(transcript.messages, claim.turn, final, self.price)
            delegated = self._busy(key) > 0 and facts.waited
            if present.turn != claim.turn:
                now = self.clock.now()
                took = facts.seconds + self._rested(present, facts.seconds)
                facts = msgspec.structs.replace(facts, waits=delegated, seconds=took)
                counted = after_turn(present, facts, self._limits, now)
                counted = msgspec.structs.replace(counted, resting=stamp(now) if delegated else "")
                present = await self.save(key, counted, claim.turn)
        self._note(key, present)
        asked = any(
            one.kind == "user" or (one.kind == RESULT and one.meta.get("goal") != present.id) for one in heard
        )
        quiet = (own or lead.kind == KIND) and not asked
        announcement = ""
        if present.by == claim.turn:
            present = await self.leave(key, present)
            self._show(present)
            # What is said to a person anyway is not said twice, and a failure is the goal's reason already.
            words = str(final.get("content") or "") if quiet and final.get("injected") != "failed" else ""
            announcement = goal_texts.announcement(present, words, self.clock.now())
        spoken = any(one.kind == "user" for one in heard) and final.get("injected") not in (
            "command",
            "failed",
        )
        follow_up = await self._next(key, present, own=own, spoken=spoken, delegated=delegated)
        if not (present.open or own or present.by == claim.turn or claim.session != key):
            return NOTHING  # it ended before this turn and is not news
        meta = {}
        if present.id == claim.turn and self.silent(lead.channel):
            meta = goal_texts.progress_notes(present)
        return Plan(present, quiet, announcement, follow_up, meta)

    def follow_up(self, key: str, goal: Goal) -> Inbound | None:
        """The row of an active goal's next turn."""
        if goal.status != "active" or goal.address is None:
            return None
        where = goal.address
        return Inbound(
            channel=where.channel,
            message_id=f"goal:{goal.id}:{goal.run}:{goal.number}",
            chat_id=where.chat_id,
            thread=where.thread,
            text=self._prompt(goal),
            kind=KIND,
            private=goal.private,
            sender_name="the gateway, for the goal",
            session=key if key != where.key else "",
            meta={"goal": goal.id, "number": goal.number},
        )

    async def _next(
        self, key: str, goal: Goal, *, own: bool, spoken: bool, delegated: bool
    ) -> Inbound | None:
        """The row of the goal's next turn, where that is for this commit; one that is to wait is put off instead.

        Where it waits already, a person's word lets it go on, and a command that changes nothing does not.
        """
        row = self.follow_up(key, goal)
        if row is None or self._later is None:
            return row
        if not own:
            return None if not spoken and await self._later.waits(row) else row
        if not (wait := self._pause(goal, delegated=delegated)):
            return row
        await self._later.postpone(row, self.clock.now() + timedelta(seconds=wait))
        return None

    def _pause(self, goal: Goal, *, delegated: bool) -> float:
        """Seconds before the goal's next turn."""
        if goal.failures:
            return self._retry_seconds[min(goal.failures, len(self._retry_seconds)) - 1]
        return min(DELEGATED_SECONDS, max(1.0, rest(goal, 0, 0.0).seconds)) if delegated else 0.0

    def _rested(self, goal: Goal, seconds: float) -> float:
        """How long its helpers worked before a turn began that has taken so many seconds: that is work too."""
        if not goal.resting:
            return 0.0
        return max(0.0, (self.clock.now() - datetime.fromisoformat(goal.resting)).total_seconds() - seconds)

    def _prompt(self, goal: Goal) -> str:
        if goal.spent.turns == 0:
            return self._prompts.text(
                "goal_start.md.j2", objective=goal.objective, checks=goal.checks, wrapping=goal.wrapping
            )
        name = "goal_wrapup.md.j2" if goal.wrapping else "goal_continue.md.j2"
        return self._prompts.text(name, number=goal.number)

    def _note(self, key: str, goal: Goal) -> None:
        if goal.status == "active":
            self._active.add(key)
        else:
            self._active.discard(key)
        if goal.status in ENDED:
            self._steps.pop(key, None)
            self._led.pop(key, None)

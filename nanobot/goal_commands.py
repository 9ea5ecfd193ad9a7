"""What `/goal` does: begin, show, halt, change and end a chat's goal."""

import re
from typing import Any

import msgspec

from nanobot import goal_texts
from nanobot.commands import Entry, Invocation
from nanobot.errors import NanobotError
from nanobot.goal import MAX_OBJECTIVE, Budget, Move, shortened
from nanobot.goal_turns import last_turn
from nanobot.goals import Goals
from nanobot.messages import Inbound
from nanobot.schedule import When, split, written
from nanobot.scheduler import Scheduler
from nanobot.session import Actors
from nanobot.store import Schedule

USAGE = """`/goal <objective>` begins a goal, which is worked on turn after turn until it is reached.
- A line `check: <command>` in it names a command that must succeed at its end.
- `every <cron>` or `at <time>` behind it, with a time zone if you like, begins it then.

`/goal` alone shows how it stands.
- `/goal pause` halts it, `/goal resume` goes on.
- `/goal done` accepts what there is, `/goal cancel` ends it.
- `/goal edit <text>` changes what it is to reach.
- `/goal budget turns=… minutes=… tokens=…` changes what it may take.
- `/goal schedule` lists what begins later, `/goal unschedule <number>` takes one off."""
BUDGET_USAGE = "For example `/goal budget turns=20 minutes=60 tokens=500000`; whole numbers above 0."
MAX_CHECKS = 10
MAX_SCHEDULED = 20  # goals of one chat
MAX_NUMBER = 1_000_000_000  # of turns, tokens or minutes
_CHECK = re.compile(r"^[ \t]*check:[ \t]*(\S.*)$", re.IGNORECASE | re.MULTILINE)
_AMOUNT = re.compile(r"(turns|tokens|minutes)\s*=\s*(\d+)", re.IGNORECASE)


class BadGoal(NanobotError):
    """A `/goal` that cannot be carried out; nothing was changed."""


class GoalCommands:
    """The handler of `/goal`. It runs beside the session's turn, so that a goal at work can be halted."""

    def __init__(self, goals: Goals, actors: Actors, scheduler: Scheduler) -> None:
        self._goals = goals
        self._scheduler = scheduler
        self._actors = actors

    def entries(self) -> list[Entry]:
        return [
            Entry(
                "goal",
                "/goal <objective>, or: pause, resume, cancel, done, edit, budget",
                "Work on something until it is done; alone it shows how it stands",
                self._goal,
                immediate=True,
                changes=True,
                shows=True,
                help=USAGE,
            )
        ]

    async def _goal(self, call: Invocation) -> str:
        if call.message.meta.get("missed"):
            return missed(call)
        word, _, rest = call.argument.partition(" ")
        word, rest = word.lower(), rest.strip()
        alone = "\n" not in call.argument
        match (word if alone and not rest else "", word):
            case ("", _) if not call.argument:
                return await self._show(call)
            case ("show" | "status" | "details", _):
                return await self._show(call)
            case ("help", _):
                return USAGE
            case ("schedule" | "schedules", _):
                return await self._list(call)
            case (_, "unschedule"):
                return await self._unschedule(call, rest)
            case ("pause", _):
                return await self._pause(call)
            case ("resume", _):
                return await self._resume(call)
            case ("cancel" | "stop" | "clear", _):
                return await self._end(call, "cancel")
            case ("done", _):
                return await self._end(call, "complete")
            case (_, "edit"):
                return await self._edit(call, call.argument[len("edit") :].strip())
            case (_, "budget"):
                return await self._budget(call, call.argument[len("budget") :].strip())
            case _:
                return await self._begin(call)

    async def _show(self, call: Invocation) -> str:
        goal = await self._goals.load(call.message.address.key)
        if goal is None:
            return f"There is no goal here.\n\n{USAGE}"
        return goal_texts.details(
            goal, self._goals.clock.now(), self._goals.helpers(call.message.address.key)
        )

    async def _begin(self, call: Invocation) -> str:
        text, when = call.argument, None
        if call.message.kind == "user":
            text, when = split(call.argument, self._goals.clock.now())
        objective, checks = objective_of(text)
        if when is not None:
            return await self._schedule(call, text, when)
        goal = await self._goals.begin(call.message.address.key, call.message, call.turn, objective, checks)
        return goal_texts.progress(goal, self._goals.clock.now())

    async def _schedule(self, call: Invocation, text: str, when: When) -> str:
        message = call.message
        planned = Inbound(
            channel=message.channel,
            message_id=call.turn,
            chat_id=message.chat_id,
            text=f"/goal {text}",
            thread=message.thread,
            sender=message.sender,
            sender_name=message.sender_name,
            kind="schedule",
            private=message.private,
        )
        if len(await self._scheduler.goals(planned.key)) >= MAX_SCHEDULED:
            raise BadGoal(
                f"There are {MAX_SCHEDULED} scheduled goals here already; `/goal unschedule <number>`."
            )
        next_at = await self._scheduler.add(call.turn, planned, when)
        return f"Scheduled: {shortened(text, 80)}\nIt begins {written(when, next_at)}."

    async def _list(self, call: Invocation) -> str:
        found = await self._scheduler.goals(call.message.address.key)
        return "\n".join(f"{number}. {told(one)}" for number, one in enumerate(found, 1)) or (
            "No goal is scheduled here."
        )

    async def _unschedule(self, call: Invocation, text: str) -> str:
        found = await self._scheduler.goals(call.message.address.key)
        if not text.isdecimal() or not 0 < int(text) <= len(found):
            raise BadGoal("Which one? `/goal schedule` lists them by number.")
        one = found[int(text) - 1]
        await self._scheduler.remove(one.id)
        return f"No longer scheduled: {told(one)}"

    async def _pause(self, call: Invocation) -> str:
        key = call.message.address.key
        goal = await self._goals.move(key, "pause", reason="paused")
        self._actors.interrupt_goal(key)
        told = f"Paused: {goal.title}. `/goal resume` goes on with what was done."
        if helpers := self._goals.helpers(key):
            told += f" {goal_texts.counted(helpers)} still at work; `/stop` ends them too."
        return told

    async def _resume(self, call: Invocation) -> str:
        key = call.message.address.key
        goal = await self._goals.load(key)
        if goal is not None and goal.status == "exhausted":
            # An end is final, so this is another goal with the same objective; the conversation has what was done.
            goal = await self._goals.begin(
                key, call.message, call.turn, goal.objective, goal.checks, budget=goal.budget
            )
            return goal_texts.progress(goal, self._goals.clock.now())
        if goal is not None and goal.status == "active":
            return f"It is active: {goal.title}."
        goal = await self._goals.move(
            key, "resume", address=call.message.address, private=call.message.private
        )
        return f"Going on: {goal.title}."

    async def _end(self, call: Invocation, what: Move) -> str:
        key = call.message.address.key
        fields = {}
        present = await self._goals.load(key)
        if present is not None:
            await self._goals.leave(key, present)  # of an end that a kill interrupted
        if what == "complete":
            fields["recap"] = (present.recap if present else "") or "Accepted by the user."
        goal = await self._goals.move(key, what, **fields)
        self._actors.interrupt_goal(key)
        goal = await self._goals.leave(key, goal)
        word = "Cancelled" if what == "cancel" else "Accepted as done"
        return f"{word}: {goal.title}. Used of its budget: {goal_texts.spending(goal)}."

    async def _edit(self, call: Invocation, text: str) -> str:
        if not text:
            raise BadGoal("What should the goal be? `/goal edit <text>`.")
        objective, checks = objective_of(text)
        key = call.message.address.key
        present = await self._goals.load(key)
        kept = present.checks[present.declared :] if present else ()
        fields: dict[str, Any] = {
            "objective": objective,
            "asked": objective,
            "ui_summary": "",
            "reason": shortened(objective, 100),
        }
        if checks:
            fields |= {"checks": (*checks, *kept), "declared": len(checks)}
        goal = await self._goals.move(key, "edit", **fields)
        return f"Changed: {goal.title}. It counts from the next turn on."

    async def _budget(self, call: Invocation, text: str) -> str:
        key = call.message.address.key
        present = await self._goals.load(key)
        if present is None or not present.open:
            raise BadGoal("There is no goal here whose budget could be changed.")
        if not text:
            return f"Used of its budget: {goal_texts.spending(present)}."
        budget = budget_of(text, present.budget)
        goal = await self._goals.move(key, "edit", budget=budget, reason=f"budget {text}")
        goal = await self._goals.save(key, msgspec.structs.replace(goal, wrapping=last_turn(goal)))
        return f"Used of its budget: {goal_texts.spending(goal)}."


def objective_of(text: str) -> tuple[str, tuple[str, ...]]:
    """The objective and the checks it declares. Raises BadGoal."""
    if len(text) > MAX_OBJECTIVE:
        raise BadGoal(
            f"That goal has {len(text):,} characters, more than the {MAX_OBJECTIVE:,} allowed. "
            "Put the details into a file and name the file."
        )
    checks = tuple(found.strip() for found in _CHECK.findall(text))
    objective = _CHECK.sub("", text).strip()
    if not objective:
        raise BadGoal("The goal says only how to check it, not what to reach.")
    if len(checks) > MAX_CHECKS:
        raise BadGoal(f"A goal may declare at most {MAX_CHECKS} checks.")
    return objective, checks


def told(one: Schedule) -> str:
    """A scheduled goal in one line."""
    when = msgspec.json.decode(one.spec, type=When)
    text = msgspec.json.decode(one.payload, type=Inbound).text.removeprefix("/goal ")
    return f"{shortened(text, 80)}: {written(when, one.next_at)}"


def missed(call: Invocation) -> str:
    notes = call.message.meta
    times = "once" if notes["missed"] == 1 else f"{notes['missed']} times"
    return (
        f"A scheduled goal was not begun, because the gateway did not run then ({times}, first {notes['due']}): "
        f"{shortened(call.argument, 80)}\nNext: {notes['next']}."
    )


def budget_of(text: str, present: Budget) -> Budget:
    """The budget after `turns=20 minutes=60`. Raises BadGoal."""
    found = {name.lower(): int(number) for name, number in _AMOUNT.findall(text)}
    if _AMOUNT.sub("", text).strip(" ,") or not found:
        raise BadGoal(f"That is no budget: {shortened(text, 60)}. {BUDGET_USAGE}")
    if not all(0 < number <= MAX_NUMBER for number in found.values()):
        raise BadGoal(f"A budget cannot be that: {shortened(text, 60)}. {BUDGET_USAGE}")
    return msgspec.structs.replace(present, **found)

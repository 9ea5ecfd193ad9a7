"""What is said about a goal: to the model each turn, and to people when it begins, changes and ends."""

from datetime import datetime
from typing import Any

from nanobot.goal import Goal, shortened, worded
from nanobot.goal_turns import MAX_REFUSALS, WARN_AT

MAX_ASKED = 2_000  # characters of them that are repeated each turn

# What a person can press on a progress message: a label, and the command it stands for.
BUTTONS = {
    "active": (("Pause", "/goal pause"), ("Stop", "/goal cancel"), ("Details", "/goal")),
    "waiting_user": (("Stop", "/goal cancel"), ("Details", "/goal")),
    "paused": (("Resume", "/goal resume"), ("Stop", "/goal cancel"), ("Details", "/goal")),
    "blocked": (
        ("Resume", "/goal resume"),
        ("Accept", "/goal done"),
        ("Stop", "/goal cancel"),
        ("Details", "/goal"),
    ),
}

# How a goal stands, for people.
STANDING = {
    "active": "Working",
    "waiting_user": "Waiting for you",
    "paused": "Paused",
    "blocked": "Blocked",
    "completed": "Completed",
    "cancelled": "Cancelled",
    "exhausted": "Out of budget",
}

HALTABLE = ("active", "waiting_user")


def context(goal: Goal) -> str:
    """The goal's lines in the runtime context of a turn."""
    lines = [
        "<goal>",
        f"Goal ({goal.status}):",
        _tame(goal.objective),
    ]
    if goal.asked and goal.asked != goal.objective:
        lines.append(f"In the user's words: {_tame(shortened(goal.asked, MAX_ASKED))}")
    if goal.ui_summary:
        lines.append(f"Summary: {_tame(goal.ui_summary)}")
    lines.append(f"Spent: {spending(goal)}.")
    if goal.wrapping:
        lines.append("The budget ends with this turn.")
    elif goal.used >= WARN_AT:
        lines.append("Most of the budget is used: do what matters most first.")
    if goal.step:
        lines.append(f"Last step: {_tame(goal.step)}")
    lines += [f"Must succeed before it counts as done: {_tame(check)}" for check in goal.checks]
    if goal.refusals:
        lines.append(
            f"Completion refused {len(goal.refusals)} of {MAX_REFUSALS} times: {_tame(goal.refusals[-1])}"
        )
    if goal.question:
        lines.append(f"Asked of the user: {_tame(goal.question)}")
    if goal.status == "blocked":
        lines.append(f"Blocked: {_tame(goal.reason)}")
    return "\n".join([*lines, "</goal>"])


def progress(goal: Goal, now: datetime) -> str:
    """The one message that is edited while a goal is worked on."""
    lines = [f"**Goal**: {goal.title}", f"{STANDING[goal.status]}, {_used(goal, now)}"]
    if goal.status == "active" and goal.failures:
        lines.append(f"The last turn failed and is tried again by itself: {shortened(goal.reason, 200)}")
    if goal.step and goal.status != "completed":
        share = f"{goal.percent} %, " if goal.percent is not None else ""
        lines.append(f"Last step: {share}{goal.step}")
    if goal.open and goal.used >= WARN_AT:
        lines.append(f"{goal.used:.0%} of the budget is used; `/goal budget turns=…` gives it more.")
    return spoken_in(goal, "\n".join(lines))


def progress_notes(goal: Goal) -> dict[str, Any]:
    """What an adapter finds in the progress message's `meta`."""
    buttons = [{"label": label, "value": value} for label, value in BUTTONS.get(goal.status, ())]
    return {"goal": goal.id, "buttons": buttons}


def details(goal: Goal, now: datetime, helpers: int = 0) -> str:
    """What `/goal` shows; `helpers` are the sub-sessions at work."""
    parts = [progress(goal, now), goal.objective if goal.objective != goal.title else ""]
    if goal.open and helpers:
        waits = "It waits for" if goal.status == "active" and goal.resting else "At work besides:"
        parts.append(f"{waits} {counted(helpers)}; `/tasks` lists them.")
    if goal.question:
        parts.append(f"It asks: {goal.question}")
    if goal.checks:
        parts.append("Must succeed at its end: " + ", ".join(f"`{check}`" for check in goal.checks))
    if goal.reason and goal.status != "active":
        parts.append(f"Reason: {why(goal) if goal.status == 'blocked' else goal.reason}")
    if goal.recap:
        parts.append(f"Recap: {goal.recap}")
    if goal.evidence:
        parts.append(f"Evidence: {goal.evidence}")
    parts.append(f"Used of its budget: {spending(goal)}.")
    return "\n\n".join(part for part in parts if part)


def standing(goal: Goal, now: datetime) -> str:
    """A goal in one line, for `/status`."""
    return f"Goal: {goal.title} ({worded(goal.status)}, {_used(goal, now)})"


def counted(helpers: int) -> str:
    return f"{helpers} sub-session{'s' if helpers > 1 else ''}"


def announcement(goal: Goal, said: str, now: datetime) -> str:
    """The message a turn ends with that brought a goal to a halt or to its end; `said` is the turn's text."""
    match goal.status:
        case "waiting_user":
            return goal.question
        case "completed":
            parts = [f"**Goal completed**: {goal.title}", goal.recap]
            if goal.evidence:
                parts.append(f"Evidence: {goal.evidence}")
        case "blocked":
            parts = [f"**Goal blocked**: {goal.title}", why(goal), said if said not in goal.reason else ""]
            way = "" if goal.refusals else "Write what it should do, or choose: "
            parts.append(
                f"{way}`/goal resume` lets it go on, `/goal done` accepts what there is, `/goal cancel` ends it."
            )
        case "exhausted":
            parts = [f"**Goal out of budget**: {goal.title} ({goal.reason})", goal.recap]
            parts.append("`/goal resume` begins it again with a fresh budget.")
        case _:
            return ""
    parts.append(f"It took {_used(goal, now)}." if not goal.open else f"So far: {_used(goal, now)}.")
    return spoken_in(goal, "\n\n".join(part for part in parts if part))


def why(goal: Goal) -> str:
    """Why it is blocked; of refusals each in a line of its own."""
    if len(goal.refusals) < MAX_REFUSALS:
        return goal.reason
    return "\n".join(
        [f"Its completion was refused {len(goal.refusals)} times:", *(f"- {one}" for one in goal.refusals)]
    )


def spoken_in(goal: Goal, text: str) -> str:
    """A text whose commands are written as they are in the goal's chat: Slack keeps the slash for itself."""
    slack = goal.address is not None and goal.address.channel == "slack"
    return text.replace("`/goal ", "`!goal ") if slack else text


def spending(goal: Goal) -> str:
    budget, spent = goal.budget, goal.spent
    return (
        f"{spent.turns} of {budget.turns} turns, {_short(spent.tokens)} of {_short(budget.tokens)} tokens, "
        f"{_minutes(spent.minutes)} of {budget.minutes} min"
    )


def offers_done(goal: Goal) -> str:
    """How `/new` asks while a goal is open."""
    return (
        f"A goal is {worded(goal.status)} here: {goal.title}. Starting over ends it. "
        "`/new yes` does that" + ("; `/goal pause` only halts it." if goal.status in HALTABLE else ".")
    )


def _used(goal: Goal, now: datetime) -> str:
    """What it took so far, in short; at its begin, what it may take."""
    budget, spent = goal.budget, goal.spent
    if not spent.turns and goal.status == "active":
        return f"may take {budget.turns} turns, {_short(budget.tokens)} tokens and {_hours(budget.minutes)}"
    cost = f"{money(goal)}, " if spent.dollars else ""
    return (
        f"{spent.turns} of {budget.turns} turns, {_short(spent.tokens)} tokens, {cost}{_lasting(goal, now)}"
    )


def money(goal: Goal) -> str:
    """What it cost, as far as prices are known."""
    dollars = goal.spent.dollars
    return f"{'at least ' if goal.spent.unpriced else ''}${dollars:.{2 if dollars >= 0.01 else 4}f}"


def _lasting(goal: Goal, now: datetime) -> str:
    try:
        began = datetime.fromisoformat(goal.started_at)
        until = datetime.fromisoformat(goal.ended_at) if goal.ended_at else now
        seconds = (until - began).total_seconds()
    except (ValueError, TypeError):  # times of other gateways may lack a zone
        return "some time"
    return _hours(int(seconds // 60)) if seconds >= 60 else "less than a minute"


def _hours(minutes: int) -> str:
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"


def _minutes(minutes: float) -> str:
    return f"{minutes:.0f}" if minutes >= 10 else f"{minutes:.1f}".removesuffix(".0")


def _short(number: int) -> str:
    if number < 1_000:
        return str(number)
    return (
        f"{number / 1_000:.0f}k"
        if number < 1_000_000
        else f"{number / 1_000_000:.1f}".removesuffix(".0") + "M"
    )


def _tame(text: str) -> str:
    """Text that cannot end the block it stands in."""
    return text.replace("<goal>", "‹goal›").replace("</goal>", "‹/goal›")

"""A sub-session's trajectory, wherever its steps are kept: our own agent's in its history, another's in its files."""

import asyncio
from typing import Any

import msgspec

from nanobot import child as rules
from nanobot.child import Child
from nanobot.child_records import ChildRecords
from nanobot.executors.turns import PARSERS, Steps, read_turns
from nanobot.trajectory import joined, of_history, told


async def steps_of(records: ChildRecords, child: Child) -> Steps:
    if child.executor in PARSERS:
        live = 0 if child.ended else child.turn
        return await asyncio.to_thread(read_turns, records.files, records.folder(child), child.executor, live)
    found = Steps()
    for step in of_history(await records.history(child)):
        found.add(step)
    return found


async def trajectory(records: ChildRecords, child: Child, *, full: bool = False) -> dict[str, Any]:
    """Its steps as people read them."""
    found = await steps_of(records, child)
    steps = joined(found.kept)
    shown: dict[str, Any] = {
        "success": True,
        "session": rules.header(child),
        "session_id": child.id,
        "task": rules.cut(child.task, 80),
        "mode": "full" if full else "summary",
        "step_count": len(steps),
        "steps": [told(step, full=full) for step in steps],
    }
    if found.left_out:
        shown["left_out"] = found.left_out
    return shown


async def detailed(records: ChildRecords, child: Child) -> list[dict[str, Any]]:
    """Its steps with every field, for the page."""
    found = await steps_of(records, child)
    return [msgspec.to_builtins(step) for step in joined(found.kept)]

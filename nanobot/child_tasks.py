"""A session's sub-sessions as channels may show and end them; implements `channel.Tasks`."""

from collections.abc import Mapping, Sequence
from typing import Any

from nanobot import child as rules
from nanobot.child import NoSuchChild
from nanobot.child_trajectory import detailed, trajectory
from nanobot.children import Children


class ChildTasks:
    def __init__(self, children: Children) -> None:
        self._children = children

    async def list(self, session: str) -> Sequence[Mapping[str, Any]]:
        now = self._children.clock.now()
        return [
            {**rules.row(child, now), "session": child.key, "state": child.status, "error": child.error}
            for child in self._children.records.of(session)
        ]

    async def trajectory(self, session: str, id: str, *, full: bool = False) -> Mapping[str, Any] | None:
        records = self._children.records
        try:
            child = records.find(id, session)
        except NoSuchChild:
            return None
        return {**await trajectory(records, child, full=full), "details": await detailed(records, child)}

    async def end(self, session: str, id: str) -> bool:
        try:
            child = self._children.records.find(id, session)
        except NoSuchChild:
            return False
        if child.ended:
            return False
        await self._children.end(child, "ended by the user", tell=True, wait=False)
        return True

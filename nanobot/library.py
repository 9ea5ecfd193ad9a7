"""The histories of all channels as channels may read and manage them; implements `channel.Sessions`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from nanobot import goal, history, pricing
from nanobot.agent import context
from nanobot.channel import About, Page, SessionSummary, TurnState
from nanobot.clock import deadline
from nanobot.errors import ConfigError, DeadlineExceeded
from nanobot.messages import Line
from nanobot.model import Model
from nanobot.session import Actors
from nanobot.session_state import SessionStates
from nanobot.skills import Skills
from nanobot.stores.sessions import SessionManager

END_SECONDS = 10.0  # for a stopped turn's last words, before its session is removed
MAX_TITLE = 200  # characters
SUGGESTIONS = 3
MAX_FORKED = 2_000  # messages of a session that a copy of it holds, the newest


class SessionLibrary:
    """`model` finds a chat's model by the name that its metadata holds, if any; `providers` know their prices."""

    def __init__(
        self,
        manager: SessionManager,
        actors: Actors,
        states: SessionStates,
        model: Callable[[str | None], Model] | None = None,
        providers: Mapping[str, pricing.Provider] | None = None,
        skills: Skills | None = None,
        budget: goal.Budget | None = None,
        forget: Sequence[Callable[[str], Awaitable[None]]] = (),
    ) -> None:
        """`forget` are told of a session that is deleted: what belongs to it goes too."""
        self._manager = manager
        self._actors = actors
        self._states = states
        self._model = model
        self._providers = providers or {}
        self._skills = skills
        self._budget = budget
        self._forget = forget

    async def list(self) -> Sequence[SessionSummary]:
        running = set(self._actors.running())
        return [
            msgspec.structs.replace(row, running=True) if row.key in running else row
            for row in await self._manager.summaries()
        ]

    async def messages(self, key: str, before: int | None = None, limit: int = 24) -> Page:
        return await self._manager.page(key, before, limit)

    async def rename(self, key: str, title: str) -> bool:
        if await self._manager.peek(key) is None:
            return False
        await self._manager.update(key, {"title": title.strip()[:MAX_TITLE] or None})
        return True

    async def delete(self, key: str) -> bool:
        self._actors.lives.terminating(key, "it is deleted")
        await self._actors.stop(key)
        with suppress(DeadlineExceeded):  # its history is closed to what still runs then
            async with deadline(END_SECONDS, "the end of its turn"):
                await self._actors.ended(key)
        deleted = await self._manager.delete(key)
        for forget in self._forget:
            await forget(key)
        for row in await self._manager.summaries():
            if row.metadata.get("parent") == key:  # such as a verification's, which is nobody's sub-session
                await self.delete(row.key)
        self._actors.lives.terminated(key)
        return deleted

    async def search(self, query: str, limit: int = 50) -> Sequence[Mapping[str, Any]]:
        return await self._manager.search(query, limit)

    async def state(self, key: str) -> TurnState:
        return self._actors.state(key)

    async def workspace(self, key: str) -> Mapping[str, Any]:
        return (await self._states.of(key)).shown()

    async def about(self, key: str) -> About:
        session = await self._manager.peek(key)
        metadata = session.metadata if session is not None else {}
        lines = session.messages if session is not None else ()
        name, window = self._model_of(metadata.get("model"))
        spoken = context.spoken(lines, session.last_consolidated, metadata) if session is not None else []
        cost = pricing.spent(lines, self._providers)
        child = metadata.get("child")
        parent = str(child.get("parent", "")) if isinstance(child, dict) else str(metadata.get("parent", ""))
        return About(
            model=name,
            context_window=window,
            context_tokens=context.tokens(spoken),
            spent=cost.usage,
            dollars=cost.dollars,
            goal_state=goal_of(metadata, self._budget),
            parent=parent,
            parent_title=await self._title(parent) if parent else "",
            forked_from=str(metadata.get("forked_from", "")),
            suggestions=self._skills.examples(SUGGESTIONS) if self._skills is not None and not lines else (),
        )

    async def export(self, key: str) -> bytes | None:
        return await self._manager.exported(key)

    async def fork(self, key: str, to: str, *, before: str = "", through: str = "") -> bool:
        page = await self._manager.page(key, None, MAX_FORKED)
        end = cut(page.messages, before, through)
        if end is None or not page.total:
            return False
        session = await self._manager.peek(key)
        metadata = session.metadata if session is not None else {}
        lines = [Line(line) for line in history.legal(page.messages[:end])]
        if lines:
            await self._manager.append(to, lines)
        title = str(metadata.get("title") or "")
        kept = {"title": title or None, "model": metadata.get("model"), "forked_from": key}
        await self._manager.update(to, {name: value for name, value in kept.items() if value})
        return True

    async def _title(self, key: str) -> str:
        rows = await self._manager.summaries()
        return next((row.title for row in rows if row.key == key), "")

    def _model_of(self, name: Any) -> tuple[str, int]:
        """The model's name and window; nothing where none is configured, which the first turn will say."""
        if self._model is None:
            return "", 0
        try:
            model = self._model(name if isinstance(name, str) else None)
        except ConfigError:
            return "", 0
        return model.name, model.context_window


def goal_of(metadata: Mapping[str, Any], budget: goal.Budget | None = None) -> dict[str, Any] | None:
    """A session's goal as live views have it; None where there is none that can be read."""
    try:
        found = goal.read(metadata, budget)
    except goal.Malformed:
        return None
    return None if found is None else goal.shown(found)


def cut(lines: Sequence[Line], before: str, through: str) -> int | None:
    """How many lines a copy takes: those before the message of a turn, those through a turn's end, or all."""
    if before:
        return next((at for at, line in enumerate(lines) if _asks(line, before)), None)
    if not through:
        return len(lines)
    last = max((at for at, line in enumerate(lines) if line.get("turn") == through), default=None)
    return None if last is None else last + 1


def _asks(line: Line, turn: str) -> bool:
    return line.get("role") == "user" and line.get("turn") == turn

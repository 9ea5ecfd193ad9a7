"""/tasks: a chat's sub-sessions, for people."""

from nanobot import child as rules
from nanobot.child_trajectory import trajectory
from nanobot.children import Children
from nanobot.commands import Entry, Invocation
from nanobot.errors import ToolError

USAGE = "/tasks [show ID | steps ID | end ID]"
LISTED = 20  # besides what is at work
SHOWN = 3_000  # characters of an answer, or of the last steps


class ChildCommands:
    """The handler of the command; each chat sees its own."""

    def __init__(self, children: Children) -> None:
        self._children = children

    def entries(self) -> list[Entry]:
        return [
            Entry(
                "tasks",
                USAGE,
                "What was delegated, and what became of it",
                self._tasks,
                immediate=True,
                changes=True,
            )
        ]

    async def _tasks(self, call: Invocation) -> str:
        session = call.message.address.key
        try:
            match call.argument.split():
                case [] | ["list"]:
                    return self._list(session)
                case ["show", asked]:
                    return await self._show(session, asked)
                case ["steps", asked]:
                    return await self._steps(session, asked)
                case ["end", asked]:
                    return await self._end(session, asked)
                case _:
                    return f"Usage: {USAGE}"
        except ToolError as error:
            return str(error).replace("\nHint: ", ". ")

    def _list(self, session: str) -> str:
        now = self._children.clock.now()
        lines = []
        found = self._children.records.of(session)
        shown = rules.newest(found, LISTED)
        for child in shown:
            row = rules.row(child, now)
            line = f"`{row['id']}` {row['executor']} {row['status']}: {row['task']} ({row['updated']})"
            why = rules.one_line(child.error.partition("\nHint: ")[0])
            lines.append(f"{line}\n    {rules.cut(why, 120)}" if why else line)
        if len(found) > len(shown):
            lines.append(f"And {len(found) - len(shown)} older ones.")
        return "\n".join(lines) or "Nothing has been delegated here."

    async def _show(self, session: str, asked: str) -> str:
        child = self._children.records.find(asked, session)
        answer = (
            child.error or await self._children.records.answer(child) or child.last or "(no response yet)"
        )
        return f"**{rules.header(child)}**\n{rules.cut(child.task, 200)}\n\n{rules.cut(answer, SHOWN)}"

    async def _steps(self, session: str, asked: str) -> str:
        found = await trajectory(self._children.records, self._children.records.find(asked, session))
        text = "\n".join(found["steps"])
        return text[-SHOWN:] or "It has done nothing yet."

    async def _end(self, session: str, asked: str) -> str:
        child = self._children.records.find(asked, session)
        if child.ended:
            return f"{child.short} is {child.status} already."
        await self._children.end(child, "ended by the user", tell=True, wait=False)
        return f"{child.short} was ended."

"""What the commands do: /new /stop /status /model /sessions /history /compact /pairing /version."""

from collections.abc import Callable, Sequence
from typing import Protocol

from nanobot import __version__, goal_texts
from nanobot.answering import Compactor
from nanobot.channel import SessionSummary
from nanobot.clock import Clock
from nanobot.commands import Entry, Invocation
from nanobot.errors import ConfigError
from nanobot.events import Event, SessionUpdated
from nanobot.goals import Goals
from nanobot.lifecycle import Stage
from nanobot.lives import Life
from nanobot.messages import Inbound
from nanobot.model import Model
from nanobot.pairing import PairingDesk
from nanobot.session import Actors
from nanobot.session_state import SessionStates
from nanobot.store import Transcripts

HISTORY_DEFAULT = 10
HISTORY_MAX = 50
LISTED_SESSIONS = 20
EXCERPT = 200  # characters
CONFIRMED = frozenset({"yes", "y", "confirm"})  # what ends an open goal with /new


class Shelf(Transcripts, Protocol):
    """The histories, as the commands need them."""

    async def clear(self, key: str) -> None:
        """Archive all messages and begin anew; durable on return."""
        ...

    async def summaries(self) -> Sequence[SessionSummary]:
        """Every session, newest first."""
        ...


class ChatCommands:
    """The handlers of the table in `commands`."""

    def __init__(
        self,
        actors: Actors,
        transcripts: Shelf,
        desk: PairingDesk,
        compactor: Compactor,
        goals: Goals,
        model: Callable[[str | None], Model],
        is_owner: Callable[[Inbound], bool],
        clock: Clock,
        states: SessionStates,
        publish: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self._publish = publish
        self._states = states
        self._actors = actors
        self._transcripts = transcripts
        self._desk = desk
        self._compactor = compactor
        self._goals = goals
        self._model = model
        self._is_owner = is_owner
        self._clock = clock
        self._since = clock.monotonic()

    def entries(self) -> list[Entry]:
        return [
            Entry(
                "new",
                "/new [yes]",
                "Start over; the old messages are archived, and with yes an open goal ends",
                self._new,
                interrupts=True,
                changes=True,
            ),
            Entry("stop", "/stop", "Stop what runs and what waits", self._stop, immediate=True, changes=True),
            Entry("status", "/status", "What runs, model, workspace, uptime", self._status, immediate=True),
            Entry(
                "model",
                "/model [name]",
                "Show or set this chat's model",
                self._set_model,
                immediate=True,
                changes=True,
                shows=True,
            ),
            Entry("sessions", "/sessions", "List your newest sessions", self._sessions, immediate=True),
            Entry("history", "/history [n]", "The last messages, 10 or n", self._history, immediate=True),
            Entry("compact", "/compact", "Fold older messages into a summary", self._compact, changes=True),
            Entry(
                "pairing",
                "/pairing [list | approve CODE | deny CODE | revoke CHANNEL USER]",
                "Who may talk to the bot",
                self._pairing,
                immediate=True,
                changes=True,
            ),
            Entry("version", "/version", "The running version", self._version, immediate=True),
        ]

    async def _new(self, call: Invocation) -> str:
        key = call.message.address.key
        goal = await self._goals.load(key)
        if goal is not None and goal.open:
            if call.argument.lower() not in CONFIRMED:
                return goal_texts.offers_done(goal)
            await self._goals.move(key, "cancel", reason="a new conversation was begun")
        elif call.beside:
            return "The goal has ended meanwhile. `/new` again starts over."
        ended = await self._actors.below(key, "a new conversation was begun")
        await self._transcripts.clear(key)
        self._publish(SessionUpdated(key, "", call.message.address, scope="thread"))
        tasks = (
            "1 task that was still at work was"
            if ended == 1
            else f"{ended} tasks that were still at work were"
        )
        return "A new conversation. What was said before is in the archive." + (
            f" {tasks} ended." if ended else ""
        )

    async def _stop(self, call: Invocation) -> str:
        key = call.message.address.key
        goal = await self._goals.halt(key)
        stopped, waiting = await self._actors.stop(key, call.seq)
        if goal is not None:
            return f"Stopped, and the goal is paused: {goal.title}. `/goal resume` goes on with it."
        if not stopped and not waiting:
            return "Nothing is running."
        more = (
            f" {waiting} waiting {'message was' if waiting == 1 else 'messages were'} dropped."
            if waiting
            else ""
        )
        return ("Stopped." if stopped else "Nothing was running.") + more

    async def _status(self, call: Invocation) -> str:
        key = call.message.address.key
        running = self._actors.state(key)
        transcript = await self._transcripts.open(key)
        try:
            model = self._model(transcript.metadata.get("model")).name
        except ConfigError as error:
            model = f"none ({error})"
        state = await self._states.of(key)
        goal = await self._goals.load(key)
        queued = f", {running.queued} waiting" if running.queued else ""
        uptime = int(self._clock.monotonic() - self._since)
        return "\n".join(
            (
                f"**{standing(state.life)}**{queued}{because(state.life)}",
                f"Model: {model}",
                *([goal_texts.standing(goal, self._clock.now())] if goal is not None and goal.open else []),
                f"Session: {key}, {len(transcript.messages)} messages",
                *state.lines(self._clock.now()),
                f"Gateway: version {__version__}, up {uptime // 3600} h {uptime % 3600 // 60} min",
                f"Turns running: {len(self._actors.running())}",
            )
        )

    async def _set_model(self, call: Invocation) -> str:
        key = call.message.address.key
        if not call.argument:
            transcript = await self._transcripts.open(key)
            return f"Model: {self._model(transcript.metadata.get('model')).name}"
        if call.argument == "default":
            await self._transcripts.update(key, {"model": None})
            return f"Model: {self._model(None).name} (the default)"
        name = self._model(call.argument).name  # raises ConfigError, which says what is known
        await self._transcripts.update(key, {"model": name})
        return f"Model: {name}, from the next message on. `/model default` goes back."

    async def _sessions(self, call: Invocation) -> str:
        if not self._is_owner(call.message):
            return "Only the owner can list sessions."
        found = (await self._transcripts.summaries())[:LISTED_SESSIONS]
        rows = [f"`{one.key}` {one.title[:60]} ({one.updated_at[:16]})" for one in found]
        return "\n".join(rows) or "None yet."

    async def _history(self, call: Invocation) -> str:
        if call.argument and not call.argument.isdecimal():
            return "How many? For example /history 20"
        count = min(int(call.argument or HISTORY_DEFAULT), HISTORY_MAX)
        transcript = await self._transcripts.open(call.message.address.key)
        said = [
            line
            for line in transcript.messages
            if line.get("role") in {"user", "assistant"} and line.get("content") and not line.get("injected")
        ]
        shown = (
            [f"**{line['role']}**: {str(line['content'])[:EXCERPT]}" for line in said[-count:]]
            if count
            else []
        )
        return "\n".join(shown) or "Nothing has been said yet."

    async def _compact(self, call: Invocation) -> str:
        transcript = await self._transcripts.open(call.message.address.key)
        before = transcript.last_consolidated
        await self._compactor.tidy(transcript, self._model(transcript.metadata.get("model")), force=True)
        folded = transcript.last_consolidated - before
        return f"{folded} older messages are now a summary." if folded else "There is nothing to fold yet."

    async def _pairing(self, call: Invocation) -> str:
        if not self._is_owner(call.message):
            return "Only the owner can manage pairing."
        match call.argument.split():
            case [] | ["list"]:
                rows = await self._desk.list()
                return (
                    "\n".join(f"{row.status}: {row.channel} {row.sender} {row.name}".rstrip() for row in rows)
                    or "Nobody has asked and nobody is paired."
                )
            case ["approve", code]:
                approved = await self._desk.approve(code)
                if approved is None:
                    return "No request waits under that code; codes live ten minutes."
                return f"{approved.name or approved.sender} may talk to the bot on {approved.channel} now."
            case ["deny", code]:
                denied = await self._desk.deny(code)
                return "Denied." if denied else "No request waits under that code."
            case ["revoke", channel, sender]:
                revoked = await self._desk.revoke(channel, sender)
                return "Revoked." if revoked else f"{sender} is not paired on {channel}."
            case _:
                return "Usage: /pairing [list | approve CODE | deny CODE | revoke CHANNEL USER]"

    async def _version(self, _: Invocation) -> str:
        return f"nanobot {__version__}"


def standing(life: Life) -> str:
    """A stage in the words of /status."""
    return {Stage.ACTIVE: "working", Stage.CREATED: "idle"}.get(life.stage, str(life.stage))


def because(life: Life) -> str:
    """Why a session is not well."""
    return f": {' '.join(life.reason.split())}" if life.stage is Stage.ERROR and life.reason else ""

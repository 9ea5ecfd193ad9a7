"""The gateway's side of a channel's port: authorise, make durable, wake the session."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from loguru import logger

from nanobot import metrics
from nanobot.channel import Command, Files, Keys, Office, Sessions, Tasks, TurnState, Waiting
from nanobot.clock import Clock, deadline
from nanobot.commands import Commands, parse
from nanobot.conversation import STORE_SECONDS
from nanobot.delivery import Deliverer
from nanobot.messages import Accepted, Address, Inbound, Outbound
from nanobot.office import OwnersOffice
from nanobot.pairing import Owners, PairingDesk, answer, question
from nanobot.received import brought
from nanobot.routing import Policy, Verdict, admit, control_lane
from nanobot.session import Actors
from nanobot.store import Dispatcher, Store

CHANGED = "[I changed the message you are answering. It says now:]\n{}"


class House:
    """What all ports share."""

    def __init__(
        self,
        store: Store,
        actors: Actors,
        commands: Commands,
        dispatcher: Dispatcher,
        deliverer: Deliverer,
        desk: PairingDesk,
        sessions: Sessions,
        clock: Clock,
        tasks: Tasks,
        owners: Owners,
        files: Files,
    ) -> None:
        self.store = store
        self.actors = actors
        self.commands = commands
        self.dispatcher = dispatcher
        self.deliverer = deliverer
        self.desk = desk
        self.sessions = sessions
        self.clock = clock
        self.tasks = tasks
        self.owners = owners
        self.files = files

    async def post(self, message: Outbound) -> None:
        """Hand a message to delivery, durably and once."""
        delivery = await self.store.outbox.add(message)
        if delivery is not None:
            self.deliverer.submit([delivery])


class ChannelPort:
    """Implements `channel.Port` for one channel."""

    def __init__(
        self,
        name: str,
        settings: Mapping[str, Any],
        workspace: Path,
        media: Path,
        house: House,
        report: Callable[[str, str], None],
    ) -> None:
        self.name = name
        self.settings = settings
        self.workspace = workspace
        self.media = media
        self.files: Files = house.files
        self.clock: Clock = house.clock
        self.keys: Keys = house.store.keys(f"channel:{name}")
        self.sessions: Sessions = house.sessions
        self.office: Office = OwnersOffice(house.desk, house.store.outbox, house.deliverer)
        self.tasks: Tasks = house.tasks
        self._house = house
        self._policy = Policy.of(settings)
        self._report = report

    async def accept(self, message: Inbound) -> Accepted | None:
        house = self._house
        if message.channel != self.name:
            raise ValueError(f"channel {self.name} handed in a message of {message.channel}")
        if self._policy.allow_from is not None and not await self._admitted(message):
            return None
        if message.private and self._policy.owner and message.sender == self._policy.owner:
            await house.owners.seen(message)
        if message.media:
            media = await brought(message.media, self.workspace, self.files)
            message = msgspec.structs.replace(message, media=media)
        invocation = parse(message)
        beside = invocation is not None and house.actors.beside(invocation, message.key)
        if beside:
            message = msgspec.structs.replace(message, session=control_lane(message.key))
        async with deadline(STORE_SECONDS, "accepting a message"):
            accepted = await house.store.inbox.accept(message)
        if accepted.duplicate:
            metrics.DUPLICATE.labels(self.name).inc()
            # Whoever handed it in first may have gone away between the disk and the waking.
            house.dispatcher.wake(message.key)
            return accepted
        metrics.ACCEPTED.labels(self.name).inc()
        house.actors.queued(message.key)
        if invocation is not None and not beside:
            entry = house.commands.find(invocation.name)
            if entry is not None and entry.interrupts:
                house.actors.interrupt(message.key)
        logger.bind(session=message.key, turn=accepted.id).debug("accepted, {} characters", len(message.text))
        house.dispatcher.wake(message.key)
        return accepted

    async def edit(self, message: Inbound) -> bool:
        house = self._house
        async with deadline(STORE_SECONDS, "changing a message"):
            row = await house.store.inbox.find(self.name, message.message_id)
            if row is None or row.inbound.sender != message.sender or not await self._may_speak(row.inbound):
                return False
            if row.inbound.text == message.text or row.status not in ("pending", "running"):
                return False
            if row.status == "pending" and await house.store.inbox.edit(
                self.name, message.message_id, message.text
            ):
                return True
            # Meant for the turn that answers it, and for no other: ended by then, it says nothing any more.
            change = msgspec.structs.replace(
                row.inbound,
                message_id=f"{message.message_id}:edit:{version(message)}",
                text=CHANGED.format(message.text),
                media=(),
                kind="nudge",
                session=row.inbound.key,
            )
            if (await house.store.inbox.accept(change)).duplicate:
                return True
        house.actors.amend(change.key, row.turn)
        house.dispatcher.wake(change.key)
        return True

    async def stop(self, session: str) -> bool:
        stopped, waiting = await self._house.actors.stop(session)
        return stopped or waiting > 0

    def reachable(self, address: Address) -> None:
        self._house.deliverer.reachable(address)

    async def undelivered(self, address: Address) -> Sequence[Outbound]:
        return [row.message for row in await self._house.store.outbox.waiting(address)]

    async def waiting(self, session: str) -> Sequence[Waiting]:
        async with deadline(STORE_SECONDS, "reading the inbox"):
            rows = await self._house.store.inbox.pending(session)
        return [Waiting(row.id, row.inbound, row.accepted_at) for row in rows if row.status == "pending"]

    def state(self, session: str) -> TurnState:
        return self._house.actors.state(session)

    def commands(self) -> Sequence[Command]:
        return self._house.commands.menu()

    async def posted(self, turn: str, part: int, address: Address, ref: str) -> None:
        await self._house.store.outbox.posted(turn, part, address, ref)

    async def preview(self, turn: str, part: int) -> str:
        async with deadline(STORE_SECONDS, "reading the outbox"):
            found = await self._house.store.outbox.find(turn, part)
        return found.message.ref if found is not None else ""

    def report(self, problem: str) -> None:
        self._report(self.name, problem)

    async def _may_speak(self, message: Inbound) -> bool:
        """Whether somebody who was let in still is."""
        if self._policy.allow_from is None:
            return True
        paired = await self._house.desk.paired(self.name, message.sender)
        return admit(message, self._policy, paired=paired) is Verdict.ADMIT

    async def _admitted(self, message: Inbound) -> bool:
        paired = await self._house.desk.paired(self.name, message.sender)
        verdict = admit(message, self._policy, paired=paired)
        if verdict is Verdict.ADMIT:
            return True
        metrics.REFUSED.labels(self.name, verdict.value).inc()
        if verdict is Verdict.PAIR:
            code = await self._house.desk.request(message)
            if code is not None:
                await self._tell_code(message, code)
        return False

    async def _tell_code(self, message: Inbound, code: str) -> None:
        house = self._house
        owners = await house.owners.addresses(self.name)
        for address in owners:
            await house.post(question(message, code, address))
        await house.post(answer(message, code, owner_asked=bool(owners)))


def version(message: Inbound) -> str:
    """What an edit is known by: the platform's time of it and its text."""
    return hashlib.sha256(f"{message.sent_at} {message.text}".encode()).hexdigest()[:16]

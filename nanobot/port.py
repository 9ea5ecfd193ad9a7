"""The gateway's side of a channel's port: authorise, make durable, wake the session."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from loguru import logger

from nanobot import metrics
from nanobot.channel import Command, Keys, Office, Sessions, Tasks, TurnState, Waiting
from nanobot.clock import Clock, deadline
from nanobot.commands import Commands, parse
from nanobot.conversation import STORE_SECONDS
from nanobot.delivery import Deliverer
from nanobot.messages import Accepted, Address, Inbound, Outbound
from nanobot.office import OwnersOffice
from nanobot.pairing import LIFETIME, PairingDesk
from nanobot.routing import Policy, Verdict, admit, control_lane
from nanobot.session import Actors
from nanobot.store import Dispatcher, Store


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
        invocation = parse(message)
        beside = invocation is not None and house.actors.beside(invocation, message.key)
        if beside:
            message = msgspec.structs.replace(message, session=control_lane(message.key))
        async with deadline(STORE_SECONDS, "accepting a message"):
            accepted = await house.store.inbox.accept(message)
        if accepted.duplicate:
            metrics.DUPLICATE.labels(self.name).inc()
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

    def report(self, problem: str) -> None:
        self._report(self.name, problem)

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
        minutes = int(LIFETIME.total_seconds() // 60)
        text = (
            f"I do not know you yet. Your pairing code is {code}, valid for {minutes} minutes. "
            f"The owner lets you in with: nanobot pairing approve {code}"
        )
        outbound = Outbound(
            turn=f"pairing:{self.name}:{message.message_id}",
            part=0,
            address=message.address,
            text=text,
            kind="notice",
            meta=message.meta,
        )
        delivery = await self._house.store.outbox.add(outbound)
        if delivery is not None:
            self._house.deliverer.submit([delivery])

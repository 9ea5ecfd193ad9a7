"""A whole gateway over the memory store, with a scripted model and a fake channel, for tests of the session floor."""

import asyncio
from collections import ChainMap
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from nanobot import content
from nanobot.approval import Approval
from nanobot.channel import Accepted
from nanobot.chat_commands import ChatCommands
from nanobot.child import Settings
from nanobot.child_care import ChildCare
from nanobot.child_commands import ChildCommands
from nanobot.child_mailbox import ParentMailbox
from nanobot.child_tasks import ChildTasks
from nanobot.children import Children
from nanobot.clock import Clock, SystemClock
from nanobot.commands import Commands
from nanobot.compactor import SummaryCompactor
from nanobot.delegation import delegation_tools
from nanobot.delivery import Deliverer
from nanobot.executor import Executor
from nanobot.executors.model import ExecutorModel
from nanobot.gateway import Gateway, publisher
from nanobot.goal_commands import GoalCommands
from nanobot.goal_desk import GoalDesk
from nanobot.goal_verify import Verifier
from nanobot.goals import Goals
from nanobot.library import SessionLibrary
from nanobot.messages import Inbound, Line, Outbound, new_id
from nanobot.model import Model
from nanobot.pairing import Owners, PairingDesk
from nanobot.port import ChannelPort, House
from nanobot.progress import ProgressBoard
from nanobot.prompts import Prompts
from nanobot.routing import Policy
from nanobot.scheduler import Scheduler
from nanobot.security.sealing import Sealer
from nanobot.session import Actors
from nanobot.session_state import SessionStates
from nanobot.skills import Skills
from nanobot.store import Store
from nanobot.stores.bus import LocalBus
from nanobot.stores.dispatcher import LocalDispatcher
from nanobot.stores.media import MediaFiles
from nanobot.stores.memory import MemoryStore, State
from nanobot.stores.sessions import SessionManager
from nanobot.stores.turn_files import TurnFiles
from nanobot.surroundings import Surroundings
from nanobot.testing import FakeChannel
from nanobot.tool import Tool
from nanobot.tools.goal import goal_tools
from nanobot.tools.toolbox import Toolbox
from nanobot.watch_settings import Watchers
from nanobot.watching import Watching
from nanobot.workbench import Workbench
from tests.security_support import security_of


class NoDelegation(msgspec.Struct):
    max_children: int = 0
    max_depth: int = 0
    timeout: float = 60.0
    max_tokens: int = 0
    allowed_dirs: Sequence[str] = ()


class Care(msgspec.Struct):
    restarts: int = 2
    health_interval: float = 30.0
    stall_timeout: float = 900.0


class World:
    """What survives a crash of the gateway: the store's tables and the histories; and what stands outside."""

    def __init__(self, workspace: Path, model: Model, tools: Sequence[Tool] = (), **settings: Any) -> None:
        self.workspace = workspace
        self.model = model
        self.tools = tools
        self.settings = settings
        self.state = State()
        self.transcripts = SessionManager(workspace)
        self.channel = FakeChannel(capabilities=settings.get("capabilities"))
        self.clock: Clock = SystemClock()
        self.delegation: Settings | None = None
        self.executors: dict[str, Executor] = {}
        self.sealer: Sealer | None = None  # of the files of outside agents
        self.watchers = Watchers()


class InMemory:
    """One life of a gateway."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.channel = world.channel
        self.store: Store = MemoryStore(world.clock, world.state)
        # Each life reads the histories from the disk again, as a new process would.
        self.transcripts = SessionManager(world.workspace, clock=world.clock)
        self.bus, self.dispatcher = LocalBus(), LocalDispatcher(world.clock)
        skills = Skills(world.workspace, content.roots("skills", world.workspace))
        self.prompts = Prompts(world.workspace, skills, content.roots("templates", world.workspace))
        dirs = world.delegation.allowed_dirs if world.delegation else ()
        security = security_of(world.workspace, allowed_dirs=dirs)
        self.children = Children(
            self.store,
            self.transcripts,
            world.clock,
            world.delegation or NoDelegation(),
            world.executors,
            security,
            files=TurnFiles(world.workspace / ".nanobot", world.sealer),
            wake=self.dispatcher.wake,
        )
        outside = {
            f"executor/{name}": ExecutorModel(one, self.children.desk)
            for name, one in world.executors.items()
        }
        steps = int(world.settings.get("max_steps", 20))
        watching = Watching(self.children, self.store.inbox, world.watchers, steps)
        publish = watching.listening(self.children.listening(publisher(self.bus)))
        channels: dict[str, Any] = {}
        self.board = ProgressBoard(
            channels, self.store.outbox, self.store.keys("progress"), world.clock, interval=0.01
        )
        self.scheduler = Scheduler(self.store.schedules, self.store.inbox, world.clock, self.dispatcher.wake)
        self.goals = Goals(
            self.transcripts,
            self.prompts,
            world.clock,
            publish,
            budget=world.settings.get("budget"),
            board=self.board,
            later=self.scheduler,
            busy=world.settings.get("busy", self.children.records.beside),
            leave=world.settings.get("leave", self.children.end_all),
            retry_seconds=world.settings.get("retry_seconds", (0.0,)),
        )
        tools = [*world.tools, *(delegation_tools(self.children) if world.delegation else ())]
        toolbox = Toolbox(tools, security)
        verifier = Verifier(toolbox, lambda _name: world.model, self.prompts, self.transcripts, world.clock)
        self.surroundings = Surroundings(security, world.clock)
        self.bench = Workbench(
            surroundings=self.surroundings,
            workspace=world.workspace,
            inbox=self.store.inbox,
            transcripts=self.transcripts,
            prompts=self.prompts,
            skills=skills,
            toolbox=toolbox.extended(goal_tools(GoalDesk(self.goals, verifier))),
            model=lambda name: outside.get(name or "", world.model),
            max_steps=steps,
            output_limit=1_000,
            steering=bool(world.settings.get("steering", True)),
            attempts=3,
        )
        self.deliverer = Deliverer(
            self.store.outbox,
            ChainMap(channels, {"sub": ParentMailbox(self.children)}),
            world.clock,
            max_age=timedelta(hours=24),
            unknown_send=world.settings.get("unknown_send", {}),
        )
        self.desk = PairingDesk(self.store.pairings, world.clock, self.post)
        policy = Policy.of(world.settings.get("channel", {}))
        self.commands = Commands(Approval({"fake": policy}, self.desk))
        compactor = SummaryCompactor(self.bench, self.transcripts, world.clock)
        self.actors = Actors(
            self.bench,
            self.commands,
            compactor,
            self.goals,
            world.clock,
            publish,
            self.deliverer.submit,
            self.dispatcher.wake,
        )
        self.children.connect(self.actors, self.bench, self.goals)
        watching.connect(self.actors, self.goals.halt)
        self.care = ChildCare(
            self.children.records, self.children.desk, self.actors, self.store.inbox, Care()
        )
        states = SessionStates(
            self.actors.lives, self.surroundings, self.transcripts, self.children.records, world.clock
        )
        chat = ChatCommands(
            self.actors,
            self.transcripts,
            self.desk,
            compactor,
            self.goals,
            self.bench.model,
            lambda message: message.sender == "owner",
            world.clock,
            states,
        )
        self.commands.add([*chat.entries(), *GoalCommands(self.goals, self.actors, self.scheduler).entries()])
        self.commands.add(ChildCommands(self.children).entries())
        library = SessionLibrary(
            self.transcripts,
            self.actors,
            states,
            budget=self.goals.budget,
            forget=(self.children.forget, self.scheduler.forget),
        )
        self.house = House(
            self.store,
            self.actors,
            self.commands,
            self.dispatcher,
            self.deliverer,
            self.desk,
            library,
            world.clock,
            ChildTasks(self.children),
            Owners({"fake": policy.owner}, self.store.keys("owners")),
            MediaFiles(world.workspace / ".nanobot"),
        )
        self.gateway = Gateway(
            channels,
            self.store,
            self.bench,
            self.actors,
            self.dispatcher,
            self.deliverer,
            self.bus,
            world.clock,
        )
        self.port = ChannelPort(
            "fake",
            world.settings.get("channel", {}),
            world.workspace,
            world.workspace,
            self.house,
            self.gateway.report,
        )
        self.gateway.add("fake", self.channel)

    async def post(self, message: Outbound) -> None:
        await self.house.post(message)

    async def say(self, text: str, *, chat: str = "c", **fields: Any) -> Accepted:
        accepted = await self.port.accept(Inbound("fake", fields.pop("id", new_id()), chat, text, **fields))
        assert accepted is not None
        return accepted

    async def answers(self, count: int) -> list[str]:
        """The texts delivered, once there are so many."""
        await self.channel.until(lambda channel: len(channel.delivered) >= count)
        return [message.text for message in self.channel.delivered]

    async def history(self, chat: str = "c") -> list[Line]:
        return list((await self.transcripts.open(f"fake:{chat}")).messages)


@asynccontextmanager
async def life(world: World) -> AsyncIterator[InMemory]:
    """A gateway that is stopped politely at the end of the block."""
    gateway = InMemory(world)
    await gateway.store.open()
    await gateway.children.load()
    await gateway.gateway.start()
    ticking = asyncio.create_task(gateway.scheduler.run())
    try:
        yield gateway
    finally:
        ticking.cancel()
        await asyncio.gather(ticking, return_exceptions=True)
        await gateway.board.close()
        await gateway.gateway.stop()
        await gateway.surroundings.close()
        await gateway.children.close()
        await gateway.transcripts.close()
        await gateway.store.close()

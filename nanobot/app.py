"""The only place that constructs things: configuration in, a running gateway out."""

import asyncio
import signal
import sys
from collections import ChainMap
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import msgspec
from loguru import logger
from prometheus_client import generate_latest

from nanobot import content, footprint, http, logs, metrics, plugins, pricing
from nanobot.approval import Approval
from nanobot.channel import Channel
from nanobot.chat_commands import ChatCommands
from nanobot.child import CHANNEL
from nanobot.child_care import ChildCare
from nanobot.child_commands import ChildCommands
from nanobot.child_mailbox import ParentMailbox
from nanobot.child_requests import follow
from nanobot.child_tasks import ChildTasks
from nanobot.children import Children
from nanobot.clock import SystemClock
from nanobot.commands import Commands
from nanobot.compactor import SummaryCompactor
from nanobot.config import Config, load
from nanobot.delegation import delegation_tools
from nanobot.delivery import Deliverer
from nanobot.errors import NanobotError
from nanobot.executor import Executor
from nanobot.executors.claude import Claude
from nanobot.executors.codex import Codex
from nanobot.executors.model import PREFIX, ExecutorModel
from nanobot.gateway import Gateway, publisher
from nanobot.goal import Budget
from nanobot.goal_commands import GoalCommands
from nanobot.goal_desk import GoalDesk
from nanobot.goal_turns import Limits
from nanobot.goal_verify import Verifier
from nanobot.goals import Goals
from nanobot.library import SessionLibrary
from nanobot.messages import Address, Attachment, Inbound, Outbound, new_id
from nanobot.models.choice import Models
from nanobot.models.registry import ModelRegistry
from nanobot.pairing import Owners, PairingDesk, Tell
from nanobot.port import ChannelPort, House
from nanobot.progress import ProgressBoard
from nanobot.prompts import Prompts
from nanobot.routing import Policy
from nanobot.scheduler import Scheduler
from nanobot.security import state_key
from nanobot.security.audit import Audit
from nanobot.security.context import SecurityContext
from nanobot.security.pins import Pins
from nanobot.session import Actors
from nanobot.session_state import SessionStates
from nanobot.skills import Skills, reader
from nanobot.store import Store
from nanobot.stores.bus import LocalBus
from nanobot.stores.dispatcher import LocalDispatcher
from nanobot.stores.lock import StateLock
from nanobot.stores.media import MediaFiles, sweep
from nanobot.stores.sessions import SessionManager
from nanobot.stores.sqlite import SqliteStore
from nanobot.stores.turn_files import TurnFiles
from nanobot.surroundings import Surroundings
from nanobot.tools.goal import goal_tools
from nanobot.tools.project import project_tool
from nanobot.tools.toolbox import Send, standard
from nanobot.watching import Watching
from nanobot.workbench import Workbench

SWITCH_SECONDS = 0.0005


class App:
    """A gateway with everything it needs, between start and stop."""

    def __init__(self, config: Config, gateway: Gateway, server: http.HttpServer) -> None:
        self.config = config
        self.gateway = gateway
        self.server = server

    @property
    def url(self) -> str:
        host = self.config.http.host
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self.server.port}"

    def ready_line(self) -> str:
        up, failed = self.gateway.up(), self.gateway.failed()
        parts = [f"ready {self.url}", f"channels={','.join(up)}"]
        if failed:
            parts.append(f"failed={','.join(failed)}")
        return " ".join(parts)


@asynccontextmanager
async def running(config: Config) -> AsyncIterator[App]:
    """A gateway that runs inside this block. Raises UsageError where it cannot start."""
    clock = SystemClock()
    workspace, state = config.workspace, config.state_dir
    async with AsyncExitStack() as stack:
        lock = stack.enter_context(StateLock(state, clock))
        sealer = state_key.sealer(state, wanted=config.security.encrypt_state)
        store = SqliteStore(state, clock, sealer=sealer)
        await store.open()
        stack.push_async_callback(store.close)
        transcripts = SessionManager(
            workspace, clock=clock, max_messages=config.sessions.max_messages, sealer=sealer
        )
        stack.push_async_callback(transcripts.close)
        files = MediaFiles(state, sealer)
        audit = Audit(state / "audit.jsonl")
        stack.callback(audit.close)
        window = config.agent.context_window
        registry = ModelRegistry(config.models, context_window=window, state=state, read=files.read)
        stack.push_async_callback(registry.close)
        models = Models(registry, config, clock)

        bus, dispatcher = LocalBus(), LocalDispatcher(clock)
        security = SecurityContext.of(config.security, workspace, [state], config.delegation.allowed_dirs)
        executors = outside_agents(config, security)
        children = Children(
            store,
            transcripts,
            clock,
            config.delegation,
            executors,
            security,
            files=TurnFiles(state, sealer),
            wake=dispatcher.wake,
        )
        for one in executors.values():
            models.outside[f"{PREFIX}{one.name}"] = ExecutorModel(one, children.desk)
        channels: dict[str, Channel] = {}
        deliverer = Deliverer(
            store.outbox,
            ChainMap(channels, {CHANNEL: ParentMailbox(children)}),
            clock,
            max_age=timedelta(hours=config.delivery.max_age_hours),
            unknown_send={
                one.name: str(one.values["unknown_send"])
                for one in config.enabled()
                if "unknown_send" in one.values
            },
        )
        pins = Pins(state, required=security.rules.pinned_skills)
        skills = Skills(workspace, content.roots("skills", workspace), pins=pins)
        prompts = Prompts(
            workspace,
            skills,
            content.roots("templates", workspace),
            name=config.agent.system_name,
            level=config.security.level,
        )
        toolbox = standard(security, state, sender(store, deliverer), audit, files)
        toolbox = toolbox.extended([reader(skills), project_tool(security, clock)])
        watching = Watching(children, store.inbox, config.watchers, config.agent.max_steps)
        publish = watching.listening(children.listening(publisher(bus)))
        board = ProgressBoard(channels, store.outbox, store.keys("progress"), clock)
        stack.push_async_callback(board.close)
        scheduler = Scheduler(store.schedules, store.inbox, clock, dispatcher.wake)
        limits = config.goals
        goals = Goals(
            transcripts,
            prompts,
            clock,
            publish,
            budget=Budget(limits.max_turns, limits.max_tokens, limits.max_minutes),
            limits=Limits(idle_turns=limits.max_idle_turns),
            board=board,
            later=scheduler,
            busy=children.records.beside,
            leave=children.end_all,
            price=lambda model, usage: pricing.dollars_for(model, usage, config.models),
        )
        goal_desk = GoalDesk(goals, Verifier(toolbox, models, prompts, transcripts, clock))
        surroundings = Surroundings(security, clock)
        stack.push_async_callback(surroundings.close)
        bench = Workbench(
            workspace=workspace,
            surroundings=surroundings,
            inbox=store.inbox,
            transcripts=transcripts,
            prompts=prompts,
            skills=skills,
            toolbox=toolbox.extended([*goal_tools(goal_desk), *delegation_tools(children)]),
            model=models,
            max_steps=config.agent.max_steps,
            output_limit=config.agent.max_output,
            steering=config.agent.queue == "steer",
            attempts=config.agent.attempts,
        )
        compactor = SummaryCompactor(bench, transcripts, clock)
        desk = PairingDesk(store.pairings, clock, poster(store, deliverer))
        policies = {one.name: Policy.of(one.values) for one in config.enabled()}
        owners = Owners({name: policy.owner for name, policy in policies.items()}, store.keys("owners"))
        commands = Commands(Approval(policies, desk))
        actors = Actors(bench, commands, compactor, goals, clock, publish, deliverer.submit, dispatcher.wake)
        children.connect(actors, bench, goals)
        ChildCare(children.records, children.desk, actors, store.inbox, config.delegation)
        states = SessionStates(actors.lives, surroundings, transcripts, children.records, clock)
        watching.connect(actors, goals.halt)
        chat = ChatCommands(
            actors, transcripts, desk, compactor, goals, models, owner_test(config), clock, states, publish
        )
        commands.add([*chat.entries(), *GoalCommands(goals, actors, scheduler).entries()])
        commands.add(ChildCommands(children).entries())
        forget = (children.forget, scheduler.forget)
        library = SessionLibrary(
            transcripts, actors, states, models, config.models, skills, goals.budget, forget
        )
        tasks = ChildTasks(children)
        house = House(
            store, actors, commands, dispatcher, deliverer, desk, library, clock, tasks, owners, files
        )

        tidy = partial(sweep, files, store.inbox, clock)
        gateway = Gateway(channels, store, bench, actors, dispatcher, deliverer, bus, clock, tidy)
        add_channels(config, house, gateway)
        routes = [route for channel in channels.values() for route in channel.routes()]
        started = asyncio.Event()
        server = http.HttpServer(
            http.build(
                routes,
                health=gateway.health,
                ready=started.is_set,
                metrics=lambda: generate_latest(metrics.REGISTRY),
                guard=guard(config),
            ),
            config.http.host,
            config.http.port,
        )
        await server.start()
        stack.push_async_callback(server.stop)
        stack.push_async_callback(children.close)
        stack.push_async_callback(gateway.stop)
        await children.load()
        await gateway.start()
        warming = asyncio.create_task(warm(registry, bench, config.agent.model))
        stack.push_async_callback(finished, warming)
        stack.push_async_callback(finished, asyncio.create_task(scheduler.run()))
        asked = follow(store.keys("children-end"), children, clock)
        stack.push_async_callback(finished, asyncio.create_task(asked))
        app = App(config, gateway, server)
        lock.set_address(app.url)
        started.set()
        yield app


def guard(config: Config) -> http.Guard:
    """The page's tokens also stand before the server's own routes, and where the page is off."""
    page = config.channels.get("websocket")
    if page is None:
        return http.Guard()
    return http.Guard(str(page.values.get("token") or ""), tokens=bool(page.values.get("users")))


def outside_agents(config: Config, security: SecurityContext) -> dict[str, Executor]:
    """The agents of others. Whether their programs are there is found out when one is asked for."""
    return {
        "codex": Codex(config.executors.codex, security),
        "claude": Claude(config.executors.claude, security),
    }


def add_channels(config: Config, house: House, gateway: Gateway) -> None:
    """Load what the configuration enables. What cannot be loaded is reported and stops nothing else."""
    for one in config.enabled():
        try:
            module = plugins.load_channel(one.name, config.workspace, replace=one.named)
            media = config.state_dir / "media" / one.name
            port = ChannelPort(one.name, one.values, config.workspace, media, house, gateway.report)
            channel: Channel = module.create(port)
        except NanobotError as error:
            gateway.report(one.name, str(error))
        else:
            gateway.add(one.name, channel)


def sender(store: Store, deliverer: Deliverer) -> Send:
    """What the message tool sends with: through the outbox, like every reply."""

    async def send(address: Address, text: str, media: tuple[Attachment, ...]) -> str:
        outbound = Outbound(turn=new_id(), part=0, address=address, text=text, media=media, kind="notice")
        await post(outbound)
        return outbound.id

    post = poster(store, deliverer)
    return send


def poster(store: Store, deliverer: Deliverer) -> Tell:
    """How a message that is no turn's reply is sent: durably, and once."""

    async def post(message: Outbound) -> None:
        delivery = await store.outbox.add(message)
        if delivery is not None:
            deliverer.submit([delivery])

    return post


def owner_test(config: Config) -> Callable[[Inbound], bool]:
    """Whether a message is the owner's: the page's owner token, or somebody named in a channel's allow_from."""
    named: Mapping[str, frozenset[str]] = {
        one.name: frozenset(map(str, one.values.get("allow_from", ()))) - {"*"} for one in config.enabled()
    }

    def is_owner(message: Inbound) -> bool:
        if message.channel == "websocket":
            return message.sender == "owner"
        return message.sender in named.get(message.channel, frozenset())

    return is_owner


async def warm(registry: ModelRegistry, bench: Workbench, name: str) -> None:
    """Do after the start what the first turn would else wait for: the model's library, the prompt's templates."""
    if not name:
        return
    try:
        await registry.warm(name)
        bench.prompts.system(small=bench.model(name).small)
        bench.surroundings.facts(bench.workspace)
        footprint.settle()
    except NanobotError as error:  # the first turn says it in the chat; here it is said to the operator
        logger.warning("model {}: {}", name, error)


async def finished(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def serve(config: Config, on_ready: Callable[[App], None]) -> None:
    """Run a gateway until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):
            loop.add_signal_handler(number, stop.set)
    async with running(config) as app:
        on_ready(app)
        await stop.wait()
        logger.info("stopping: no new messages; turns may reach a safe point")


def run(workspace: Path, *, host: str | None = None, port: int | None = None) -> int:
    """`nanobot gateway`: returns the exit code. UsageError goes to the caller."""
    footprint.one_arena()
    config = load(workspace, host=host, port=port)
    logs.setup(config.logs.level, as_json=config.logs.as_json, secrets=config.secrets())
    if config.unwritten:
        logger.warning("{}", config.unwritten)

    def announce(app: App) -> None:
        with suppress(OSError):  # who does not wait for it may have closed the pipe
            print(app.ready_line(), flush=True)  # noqa: T201 - the one line that other programs wait for
        if config.model_hint and not config.agent.model:
            logger.warning("{}", config.model_hint)

    # Other threads only wait for the disk; they should not have to wait for this one as well.
    sys.setswitchinterval(SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        runner.run(serve(config, announce))
    return 0


@asynccontextmanager
async def embedded(workspace: Path) -> AsyncIterator[str]:
    """A gateway inside this process with the WebSocket channel alone, on a free port; yields its URL."""
    config = load(workspace)
    only = {name: one for name, one in config.channels.items() if name == "websocket"}
    http_settings = msgspec.structs.replace(config.http, host="127.0.0.1", port=0)
    async with running(msgspec.structs.replace(config, channels=only, http=http_settings)) as app:
        yield app.url


def event_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """A uvloop where there is one."""
    if sys.platform == "win32":
        return None
    import uvloop  # noqa: PLC0415 - absent on Windows

    return uvloop.new_event_loop

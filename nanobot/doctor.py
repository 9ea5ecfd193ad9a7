"""Whether everything a gateway needs is there: one check a function, each with its remedy.

Nothing is changed: state that is absent stays absent.
"""

import os
import shutil
import stat
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from nanobot import __version__, http, os_errors, plugins
from nanobot.clock import SystemClock, deadline, stamp
from nanobot.config import ChannelSettings, Config, load
from nanobot.errors import DeadlineExceeded, NanobotError, UsageError
from nanobot.extras import missing
from nanobot.messages import Line
from nanobot.model import Failed, ModelRequest, Text
from nanobot.models.registry import ModelRegistry
from nanobot.security import state_key
from nanobot.security.context import SecurityContext
from nanobot.stores.lock import holder
from nanobot.stores.sqlite import SqliteStore
from nanobot.workspace import CONFIG_FILE, state_dir

MODEL_SECONDS = 60.0  # for one short answer; the embedded model loads first
PLATFORM_SECONDS = 60.0  # for all a channel asks its platform
STORE_SECONDS = 10.0  # for what the database is asked
MOST_WAITING = 10_000  # replies that are counted
LOW_DISK, NO_DISK = 1 << 30, 100 << 20  # bytes free: a warning, a failure
LONG, MIXED = 20, 8  # characters of a token, and different ones, below which it can be guessed
STRONG = "openssl rand -hex 24"
BUILT = 1_735_689_600.0  # 2025-01-01: no clock that is right shows less
AHEAD_SECONDS = 120.0  # files this far in the future mean that the clock went back

Status = Literal["ok", "warn", "fail"]


class Check(msgspec.Struct, frozen=True):
    """One finding. `remedy` says what to do about a warning or a failure."""

    name: str
    status: Status
    text: str
    remedy: str = ""


async def examine(workspace: Path, *, ask_model: bool = True) -> AsyncIterator[Check]:
    """All checks, in an order in which a failure explains those after it."""
    yield python()
    config: Config | None = None
    try:
        config = load(workspace)
    except NanobotError as error:
        unread = isinstance(error.__cause__, OSError)  # it says itself what to do
        for line in str(error).splitlines():
            yield Check("config", "fail", line, "" if unread else f"Edit {workspace / CONFIG_FILE}.")
    if config is not None:
        yield configured(config)
    for check in places(workspace):
        yield check
    yield looked("disk", lambda: disk(workspace))
    yield looked("clock", lambda: clock(workspace))
    if config is None:
        return
    for channel in config.enabled():
        found = enabled_channel(channel)
        yield found
        if ask_model and found.status == "ok":
            for check in await platform(channel, workspace):
                yield check
        if found.status == "ok":
            for check in await remembered(channel, workspace):
                yield check
    yield looked("encryption", lambda: encryption(config))
    yield commands(config)
    yield page(config)
    yield looked("port", lambda: listening(config))
    yield await model(config, ask=ask_model)


def looked(name: str, look: Callable[[], Check]) -> Check:
    """A check whose files may be another account's."""
    try:
        return look()
    except OSError as error:
        return Check(name, "fail", os_errors.sentence(error))


def python() -> Check:
    text = f"Python {sys.version.split()[0]}, nanobot {__version__}"
    there = [name for name in ("slack", "telegram", "local") if not missing(name)]
    extras = f", extras: {', '.join(there) or 'none'}"
    lack = missing("")
    if lack:
        return Check(
            "python", "fail", f"{text}; missing: {', '.join(lack)}", "pip install --force-reinstall nanobot"
        )
    return Check("python", "ok", text + extras)


def configured(config: Config) -> Check:
    if not config.file.is_file():
        return Check(
            "config", "warn", f"{config.file} is missing; defaults apply", "Make one with nanobot init."
        )
    mode = stat.S_IMODE(config.file.stat().st_mode)
    if mode & 0o077 and config.secrets():
        return Check("config", "warn", f"others may read {config.file}", f"chmod 600 {config.file}")
    return Check("config", "ok", str(config.file))


def places(workspace: Path) -> Iterator[Check]:
    """Whether the workspace and its state can be written, and only by their owner."""
    if not workspace.is_dir():
        yield Check("workspace", "fail", f"{workspace} does not exist", f"nanobot init {workspace}")
        return
    if not os.access(workspace, os.W_OK | os.X_OK):
        yield Check(
            "workspace", "fail", f"{workspace} cannot be written by this user", os_errors.rights(workspace)
        )
        return
    yield Check("workspace", "ok", str(workspace))
    state = state_dir(workspace)
    if not state.is_dir():
        yield Check("state", "ok", f"{state} will be made at the first start")
        return
    found = state.stat()
    if not os.access(state, os.W_OK | os.X_OK) or found.st_uid != os.geteuid():
        text = f"{state} is not this user's to write"
        yield Check("state", "fail", text, os_errors.rights(state))
    elif found.st_mode & 0o077:
        yield Check("state", "warn", f"others may look into {state}", f"chmod 700 {state}")
    else:
        yield Check("state", "ok", str(state))


def encryption(config: Config) -> Check:
    """Whether the state is encrypted as the configuration wants it, and opens with the key that is here."""
    state, wanted = config.state_dir, config.security.encrypt_state
    try:
        ring = state_key.read(state)
        if ring is None and not wanted:
            return Check("encryption", "ok", "the state is not encrypted")
        if ring is None:
            begun = state_key.master() is not None
            text = "the state will be encrypted from the first start on"
            remedy = "" if begun else f"Set {state_key.VARIABLE}: nanobot security key makes one."
            return Check("encryption", "ok" if begun else "warn", text, remedy)
        state_key.opened(state, ring)
    except UsageError as error:
        return Check("encryption", "fail", str(error), "See docs/howto/encrypt-the-state.md.")
    if not wanted:
        text = "the state is encrypted, and encrypt_state is not set: the gateway refuses to start"
        return Check("encryption", "fail", text, "Set encrypt_state = true under [security].")
    if ring.to_do:
        return Check("encryption", "warn", ring.to_do, "Stop the gateway, then run nanobot security rekey.")
    return Check("encryption", "ok", "the state is encrypted, and the key opens it")


def disk(workspace: Path) -> Check:
    place = next((one for one in (workspace, *workspace.parents) if one.is_dir()), Path("/"))
    free = shutil.disk_usage(place).free
    text = f"{free / (1 << 30):.1f} GiB free at {place}"
    if free < NO_DISK:
        return Check("disk", "fail", text, "Free some space: a full disk means that no message is accepted.")
    if free < LOW_DISK:
        return Check("disk", "warn", text, "Free some space before it is full: then no message is accepted.")
    return Check("disk", "ok", text)


def clock(workspace: Path) -> Check:
    now = time.time()
    if now < BUILT:
        return Check(
            "clock",
            "fail",
            f"it is {time.ctime(now)} here",
            "Set the clock; TLS and Slack refuse wrong times.",
        )
    database = state_dir(workspace) / "gateway.db"
    ahead = database.stat().st_mtime - now if os.access(database, os.R_OK) else 0.0
    if ahead > AHEAD_SECONDS:
        text = f"{database} was written {ahead:.0f} s in the future"
        return Check("clock", "warn", text, "The clock went back; check its synchronisation (timedatectl).")
    return Check("clock", "ok", time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(now)))


def enabled_channel(channel: ChannelSettings) -> Check:
    """Code, libraries and credentials; whether the platform takes them shows at the start."""
    name, manifest = f"channel {channel.name}", channel.manifest
    if not (channel.folder / "__init__.py").is_file():
        remedy = f"Set enabled = false in [channels.{channel.name}]."
        return Check(name, "fail", f"this build has no adapter for {manifest.title}", remedy)
    lack = missing(manifest.extra) if manifest.extra else []
    if lack:
        return Check(name, "fail", f"{', '.join(lack)} is not installed", manifest.needs)
    given = [key for key, setting in manifest.settings.items() if setting.secret and channel.values[key]]
    return Check(
        name, "ok", f"{manifest.title}; {', '.join(given) + ' set' if given else 'no credentials set'}"
    )


async def platform(channel: ChannelSettings, workspace: Path) -> list[Check]:
    """What the platform itself says about the set-up, where the channel knows how to ask."""
    name = f"channel {channel.name}"
    try:
        module = plugins.load_checkup(channel.name, workspace, replace=channel.named)
        if module is None:
            return []
        async with deadline(PLATFORM_SECONDS, f"asking {channel.manifest.title}"):
            return [
                Check(name, one.status, one.text, one.remedy) for one in await module.examine(channel.values)
            ]
    except NanobotError as error:
        return [Check(name, "fail", str(error), f"Mend [channels.{channel.name}].")]


async def remembered(channel: ChannelSettings, workspace: Path) -> list[Check]:
    """What the channel itself noted while it ran, and how many replies wait for each chat that it names."""
    name = f"channel {channel.name}"
    try:
        module = plugins.load_checkup(channel.name, workspace, replace=channel.named)
        review = getattr(module, "review", None)
        if review is None or not (state_dir(workspace) / "gateway.db").is_file():
            return []
        store = SqliteStore(state_dir(workspace))
        async with deadline(STORE_SECONDS, "the database"):
            await store.open()
            try:
                notes = dict(await store.keys(f"channel:{channel.name}").items())
                rows = await store.outbox.list(("pending", "sending", "unknown"), MOST_WAITING)
            finally:
                await store.close()
    except OSError as error:
        return [Check(name, "fail", os_errors.sentence(error))]
    except NanobotError as error:
        return [
            Check(
                name, "fail", str(error), "Mend what it says; nanobot gateway would not start on it either."
            )
        ]
    waiting = Counter(
        row.message.address.chat_id for row in rows if row.message.address.channel == channel.name
    )
    return [Check(name, one.status, one.text, one.remedy) for one in review(notes, waiting)]


def commands(config: Config) -> Check:
    """Whether the agent's exec tool can work."""
    security = SecurityContext.of(config.security, config.workspace, [config.state_dir])
    problem = security.sandbox_problem()
    if not problem:
        return Check("sandbox", "ok", f"bubblewrap works; security level {security.level}")
    what = "commands run without a sandbox" if security.plain_exec else "commands are refused"
    return Check("sandbox", "warn", f"{what}: {problem}", "Install bubblewrap; nothing else needs it.")


def page(config: Config) -> Check:
    """Whether the page's tokens keep others out, and the agent's own commands."""
    channel = config.channels.get("websocket")
    if channel is None or not channel.enabled:
        return Check("page", "ok", "the page is off")
    token, users = str(channel.values["token"]), dict(channel.values["users"])
    if not token and not users:
        security = SecurityContext.of(config.security, config.workspace, [config.state_dir])
        if not security.network:
            return Check("page", "ok", "no token: whoever uses this machine is the owner")
        text = "commands of the agent have the network and the page has no token: they can act as the owner"
        return Check("page", "warn", text, f"Set token under [channels.websocket]: {STRONG}")
    given = {"token": token, **{f"users.{name}": str(one) for name, one in users.items()}}
    weak = [name for name, one in given.items() if one and (len(one) < LONG or len(set(one)) < MIXED)]
    if weak:
        text = f"{', '.join(weak)} of [channels.websocket] can be guessed: shorter than {LONG} characters, or too plain"
        return Check("page", "warn", text, f"Make it long: {STRONG}")
    return Check("page", "ok", f"{len(given) - (not token)} tokens, all long")


def listening(config: Config) -> Check:
    host, port = config.http.host, config.http.port
    ours = holder(config.state_dir) if config.state_dir.is_dir() else None
    if ours is not None:
        return Check(
            "port", "ok", f"a gateway of this workspace runs (pid {ours.pid}) at {ours.address or '…'}"
        )
    try:
        http.bind(host, port).close()
    except NanobotError as error:
        return Check("port", "fail", str(error), "Stop what listens there, or set [http] port.")
    return Check("port", "ok", f"{host}:{port} is free")


async def model(config: Config, *, ask: bool) -> Check:
    """One real, short completion."""
    name = config.agent.model
    if not name:
        return Check("model", "fail", "no model is set up", config.model_hint)
    if not ask:
        return Check("model", "ok", f"{name}, not asked")
    started = time.monotonic()
    # What the embedded model logs must not make a state where there is none, nor end a running gateway's log.
    with tempfile.TemporaryDirectory(prefix="nanobot-doctor-") as place:
        registry = ModelRegistry(config.models, context_window=config.agent.context_window, state=Path(place))
        try:
            async with deadline(MODEL_SECONDS, f"an answer of {name}"):
                answer = await _answer(registry, name)
        except DeadlineExceeded as error:
            return Check("model", "fail", str(error), "Check the network and base_url.")
        except NanobotError as error:
            return Check("model", "fail", str(error), "Mend agent.model or its table in config.toml.")
        finally:
            await registry.close()
    if isinstance(answer, Failed):
        remedy = (
            "Check the key."
            if answer.kind in ("auth", "quota")
            else "Check the network, base_url and the name."
        )
        return Check("model", "fail", f"{name}: {answer.message}", remedy)
    return Check("model", "ok", f"{name} answered in {time.monotonic() - started:.1f} s")


async def _answer(registry: ModelRegistry, name: str) -> Failed | str:
    line = Line(role="user", content="Reply with the word OK.", timestamp=stamp(SystemClock().now()))
    request = ModelRequest(system="You answer briefly.", messages=[line], max_output=256)
    said = ""
    async for event in registry.get(name).stream(request):
        if isinstance(event, Failed):
            return event
        if isinstance(event, Text):
            said += event.text
    return said

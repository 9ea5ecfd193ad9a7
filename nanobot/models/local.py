"""A GGUF model on this machine: llama.cpp in a child process, spoken to like any server of chat completions."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from importlib.util import find_spec
from pathlib import Path

import msgspec
from loguru import logger

from nanobot.clock import deadline
from nanobot.errors import DeadlineExceeded, MissingExtra, ModelError
from nanobot.model import Failed, ModelEvent, ModelRequest
from nanobot.models import gguf
from nanobot.models.http import HttpClient, ProviderSettings
from nanobot.models.media import Read
from nanobot.models.openai import OpenAIModel

START_TIMEOUT = 120.0  # seconds; large files load slowly from a cold disk
STOP_TIMEOUT = 3.0  # seconds
RESTART_WAITS = (0.0, 1.0, 5.0, 30.0)  # seconds after the last start, by the number of deaths in a row
HEALTHY = 60.0  # seconds of life after which a death counts as the first again
CONTEXT, SMALL_CONTEXT = 16_384, 4096  # tokens, unless extra = { context = … }
SMALL_OUTPUT = 768  # tokens; such a model rather rambles on than ends
MAX_LOG = 1024 * 1024  # bytes
# A small model repeats itself at llama.cpp's own defaults: words, and with the first three alone whole paragraphs until
# the limit. The last two are its "don't repeat yourself" sampler, over the last 1,024 tokens.
SMALL_SAMPLING = {
    "temperature": 0.2,
    "top_p": 0.9,
    "repeat_penalty": 1.1,
    "dry_multiplier": 0.8,
    "dry_penalty_last_n": 1024,
}
ENVIRONMENT = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "SYSTEMROOT",
)


class LocalModel(OpenAIModel):
    """Started at the first call or by `warm`, and again when it died.

    A model whose chat template has no place for tools is `small`: it is sent words alone, gets a short output limit,
    and the prompt's builder should be brief. `[models.local] extra` takes `context` and `threads` besides the request's
    own fields. Raises MissingExtra and ConfigError.
    """

    def __init__(
        self,
        name: str,
        settings: ProviderSettings,
        state: Path,
        *,
        roots: Sequence[Path] = (),
        read: Read = Path.read_bytes,
    ) -> None:
        if find_spec("xllamacpp") is None:
            raise MissingExtra("The embedded model", "local")
        file = gguf.locate(settings.path, f"[models.{name.partition('/')[0]}]")
        self.small = not gguf.takes_tools(file)
        self.dialect = "plain" if self.small else "openai"
        extra = {**(SMALL_SAMPLING if self.small else {}), **settings.extra}
        context = int(extra.pop("context", SMALL_CONTEXT if self.small else CONTEXT))
        threads = int(extra.pop("threads", 0))
        # An own pool without the environment's proxies: this server is on loopback.
        client = HttpClient(trust_env=False)
        super().__init__(name, settings, client, context_window=context, roots=roots, read=read)
        self.target = msgspec.structs.replace(self.target, extra=extra, secrets=())
        self.server = LocalServer(file, state / "logs" / "local-model.log", context=context, threads=threads)

    async def warm(self) -> None:
        """Load the model before anyone asks; a failure is logged and comes again at the first call."""
        try:
            await self.server.url()
        except ModelError as error:
            logger.warning("{}", error)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        limit = min(request.max_output, SMALL_OUTPUT if self.small else self.context_window // 2)
        request = msgspec.structs.replace(request, max_output=limit)
        for last in (False, True):
            try:
                url = await self.server.url()
            except ModelError as error:
                yield Failed("unreachable", str(error))
                return
            self.target = msgspec.structs.replace(self.target, url=f"{url}/chat/completions")
            self.headers["Authorization"] = f"Bearer {self.server.key}"
            async with aclosing(super().stream(request)) as stream:
                async for event in stream:
                    refused = isinstance(event, Failed) and event.kind == "unreachable"
                    if refused and not last and await self.server.died():
                        break  # just now, and nothing was said yet: once more on a new one
                    yield event
                else:
                    return

    async def close(self) -> None:
        await self.client.close()
        await self.server.stop()


class LocalServer:
    """The child process. It dies with this one; its output goes to a log file."""

    def __init__(self, file: Path, log: Path, *, context: int, threads: int) -> None:
        self.file = file
        self.log = log
        self._options = ("--context", str(context), "--threads", str(threads))
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._url = ""
        self.key = ""  # the child makes a new one each time
        self._started_at = 0.0
        self._deaths = 0

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def url(self) -> str:
        """Its base URL; starts it where it does not run. Raises ModelError with the reason and the log's place."""
        async with self._lock:
            if self._process is not None and self._process.returncode is None:
                return self._url
            if self._process is not None:
                await self._hold_back(self._process.returncode)
            await self._start()
            return self._url

    async def died(self) -> bool:
        """Whether it is dead: after a refused connection the news may take a moment."""
        if self._process is None:
            return True
        try:
            async with deadline(1.0, "news of the local model's process"):
                await self._process.wait()
        except DeadlineExceeded:
            return False
        return True

    async def stop(self) -> None:
        """End it: at the end of its input it goes by itself, else it is killed."""
        process, self._process = self._process, None
        if process is not None:
            await _end(process)

    async def _hold_back(self, code: int | None) -> None:
        """A child that keeps dying is not started without end: wait longer each time."""
        now = asyncio.get_running_loop().time()
        self._deaths = 1 if now - self._started_at > HEALTHY else self._deaths + 1
        logger.warning("the local model's process ended with {}; starting it again", code)
        wait = self._started_at + RESTART_WAITS[min(self._deaths, len(RESTART_WAITS)) - 1] - now
        if wait > 0:
            await asyncio.sleep(wait)

    async def _start(self) -> None:
        self._started_at = asyncio.get_running_loop().time()
        self.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.log.exists() and self.log.stat().st_size >= MAX_LOG:
            self.log.unlink()
        with os.fdopen(os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # what lies in the working directory is not ours to import
                "-m",
                "nanobot.models.local_server",
                *("--model", str(self.file), "--parent", str(os.getpid()), *self._options),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=_environment(),
                start_new_session=True,  # the terminal's Ctrl-C is the gateway's to answer
            )
        self._process = process
        assert process.stdout is not None
        try:
            async with deadline(START_TIMEOUT, "loading the local model"):
                line = await process.stdout.readline()
        except DeadlineExceeded as error:
            await _end(process)
            raise ModelError(f"The local model: {error}; see {self.log}.") from error
        except asyncio.CancelledError:
            await _end(process)  # half loaded, and nobody would know its address
            raise
        if not line:
            await _end(process)
            raise ModelError(f"The local model {self.file.name} could not be loaded; see {self.log}.")
        ready = msgspec.json.decode(line, type=_Ready)
        self._url, self.key = ready.ready, ready.key


class _Ready(msgspec.Struct):
    """The child's one line."""

    ready: str  # base URL
    key: str


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        try:
            async with deadline(STOP_TIMEOUT, "the local model's end"):
                await process.wait()
                return
        except DeadlineExceeded:
            with suppress(ProcessLookupError):
                process.kill()
    await process.wait()


def _environment() -> dict[str, str]:
    """What the child needs to run, without anybody's keys."""
    kept = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    here = str(Path(__file__).parents[2])
    return {**kept, "PYTHONPATH": here}

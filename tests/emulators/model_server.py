"""What the emulated model providers have in common: a real HTTP server that answers as it is told.

Told by the test (`server.script(Reply(...), ...)`), else by directives in the last user message, one a line, so that a
whole-process test needs nothing but a message:

    SLOW n             n words a second
    DELAY s            seconds before the first word
    LONG n             an answer of n words
    REASON text        a thought before the answer
    TOOL name {json}   calls a tool; several lines call one after another, then "result: <the last result>"
    TOOLS name {json}  like TOOL, but all such lines are called at once
    HANG               accepts the request and never answers
    CUT [n]            breaks off half-way (only the first n times that this text is sent)
    STATUS code [n]    answers with an HTTP error (only the first n times)
    OVERFLOW           says that the context is too long

Without one the answer is exactly "echo: <text>", word by word; lines that are no directive are the text.
"""

import argparse
import asyncio
import contextlib
import signal
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec
from aiohttp import web

CONTEXT_MARK = "\n\n<runtime_context>\n"  # where nanobot's runtime context begins in a user message
RETRY_AFTER = "0.05"  # seconds, sent with 429


class Call(msgspec.Struct, frozen=True):
    id: str
    name: str
    arguments: str


class Reply(msgspec.Struct, frozen=True):
    """One answer. Delays are in seconds; None takes the server's own."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    status: int = 200
    error: str = ""  # with status 200: an error in the middle of the stream
    code: str = ""  # the error's machine word
    headers: Mapping[str, str] = {}
    finish: str = ""  # a finish reason other than the natural one
    first_delay: float | None = None
    delay: float | None = None
    cut: bool = False
    hang: bool = False
    stall: bool = False  # the stream begins, and nothing follows
    frames: tuple[bytes, ...] | None = None  # the stream's bytes as they are


class Asked(msgspec.Struct, frozen=True):
    """What a request asks, read from its protocol."""

    text: str  # of the last user message
    results: tuple[str, ...] = ()  # tool results after it
    stream: bool = True
    model: str = ""
    input_chars: int = 0


class Refused(Exception):
    """The platform would refuse this request; the text says why."""


class Recorded(msgspec.Struct, frozen=True):
    raw: bytes
    headers: Mapping[str, str]

    @property
    def body(self) -> dict[str, Any]:
        return msgspec.json.decode(self.raw, type=dict[str, Any])


class ModelServer:
    """`async with OpenAIServer() as server:` and then `server.url`. One instance serves any number of requests."""

    path = ""
    prefix = ""  # of the base URL

    def __init__(self, *, first_delay: float = 0.0, delay: float = 0.0, keep: int = 1000) -> None:
        self.first_delay = first_delay
        self.delay = delay
        self.requests: deque[Recorded] = deque(maxlen=keep)
        self.counters: Counter[str] = Counter()  # requests, finished, cut_by_client, refused
        self.in_flight = 0
        self.most_in_flight = 0
        self.arrived = asyncio.Event()  # set by every request
        self._replies: deque[Reply] = deque()
        self._seen: Counter[str] = Counter()
        self._hanging = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self.url = ""

    # --- what a protocol fills in

    def read(self, raw: bytes, headers: Mapping[str, str]) -> Asked:
        """Raises Refused as the platform would."""
        raise NotImplementedError

    def encode(self, reply: Reply, asked: Asked) -> tuple[bytes, list[bytes], bytes]:
        """The stream's beginning, a frame a word, and its end."""
        raise NotImplementedError

    def whole(self, reply: Reply, asked: Asked) -> bytes:
        """The answer without streaming."""
        raise NotImplementedError

    def problem(self, status: int, text: str, code: str) -> bytes:
        """An error's body."""
        raise NotImplementedError

    # --- what a test does

    def script(self, *replies: Reply) -> None:
        """The next answers, whatever is asked; after them directives and echo again."""
        self._replies.extend(replies)

    def stats(self) -> dict[str, int]:
        return {**self.counters, "in_flight": self.in_flight, "most_in_flight": self.most_in_flight}

    async def start(self, port: int = 0) -> str:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post(self.path, self._answer)
        app.router.add_get("/_stats", self._stats)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port, reuse_address=True)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}{self.prefix}"
        return self.url

    async def stop(self) -> None:
        self._hanging.set()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # --- one request

    async def _stats(self, _: web.Request) -> web.Response:
        return web.json_response(self.stats())

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        self.requests.append(Recorded(raw, dict(request.headers)))
        self.counters["requests"] += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        self.arrived.set()
        try:
            asked = self.read(raw, request.headers)
            reply = self._replies.popleft() if self._replies else self._told(asked)
            response = await self._send(request, reply, asked)
            self.counters["finished"] += 1
        except Refused as error:
            self.counters["refused"] += 1
            return web.Response(
                status=400, body=self.problem(400, str(error), ""), content_type="application/json"
            )
        except (ConnectionError, asyncio.CancelledError):
            self.counters["cut_by_client"] += 1
            raise
        else:
            return response
        finally:
            self.in_flight -= 1

    def _told(self, asked: Asked) -> Reply:
        self._seen[asked.text] += 1
        return directed(asked, self._seen[asked.text])

    async def _send(self, request: web.Request, reply: Reply, asked: Asked) -> web.StreamResponse:
        if reply.hang:
            await self._hanging.wait()
        first = self.first_delay if reply.first_delay is None else reply.first_delay
        if first:
            await asyncio.sleep(first)
        if reply.status != 200:
            body = self.problem(reply.status, reply.error or f"status {reply.status}", reply.code)
            return web.Response(
                status=reply.status, headers=reply.headers, body=body, content_type="application/json"
            )
        if not asked.stream:
            return web.Response(body=self.whole(reply, asked), content_type="application/json")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **reply.headers})
        await response.prepare(request)
        head, words, tail = (b"", list(reply.frames), b"") if reply.frames else self.encode(reply, asked)
        delay = self.delay if reply.delay is None else reply.delay
        if reply.stall:
            await response.write(head)
            await self._hanging.wait()
        if reply.cut:
            words, tail = words[: len(words) // 2 + 1], b""
        if delay:
            await response.write(head)
            for word in words:
                await response.write(word)
                await asyncio.sleep(delay)
            if tail:
                await response.write(tail)
        else:
            await response.write(b"".join([head, *words, tail]))
        if reply.cut:
            assert request.transport is not None
            request.transport.abort()
            return response
        await response.write_eof()
        return response


def directed(asked: Asked, times: int) -> Reply:
    """The answer to a message by its directives; `times` is how often it was sent, this time included."""
    words: list[str] = []
    sequence: list[Call] = []
    together: list[Call] = []
    options: dict[str, Any] = {}
    for line in asked.text.splitlines():
        word, _, rest = line.strip().partition(" ")
        match word:
            case "SLOW":
                options["delay"] = 1 / float(rest)
            case "DELAY":
                options["first_delay"] = float(rest)
            case "LONG":
                options["text"] = " ".join(f"word{number}" for number in range(int(rest)))
            case "REASON":
                options["reasoning"] = rest
            case "TOOL" | "TOOLS":
                name, _, arguments = rest.partition(" ")
                calls = sequence if word == "TOOL" else together
                calls.append(Call(f"call_{times}_{len(sequence) + len(together)}", name, arguments or "{}"))
            case "HANG":
                options["hang"] = True
            case "CUT":
                options["cut"] = not rest or times <= int(rest)
            case "STATUS":
                code, _, first = rest.partition(" ")
                if not first or times <= int(first):
                    options["status"] = int(code)
                    if code == "429":
                        options["headers"] = {"Retry-After": RETRY_AFTER}
            case "OVERFLOW":
                options |= {"status": 400, "code": "context_length_exceeded", "error": "prompt is too long"}
            case _:
                words.append(line)
    if together and not asked.results:
        return Reply(calls=tuple(together), **options)
    done = len(asked.results) - len(together)
    if 0 <= done < len(sequence):
        return Reply(calls=(sequence[done],), **options)
    if asked.results:
        options.setdefault("text", f"result: {asked.results[-1]}")
    return Reply(**{"text": f"echo: {chr(10).join(words)}", **options})


def split_words(text: str) -> list[str]:
    """Word-sized chunks that join to the text."""
    parts = text.split(" ")
    return [part + " " for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def without_context(text: str) -> str:
    return text.partition(CONTEXT_MARK)[0]


def texts(content: Any) -> str:
    """The text of string or block-list content."""
    if isinstance(content, list):
        return "\n".join([block["text"] for block in content if block.get("type") == "text"])
    return content or ""


def main(kind: type[ModelServer], arguments: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM; prints the base URL once it listens."""
    parser = argparse.ArgumentParser(description=kind.__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--first-delay", type=float, default=0.0, help="seconds before the first word")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds between words")
    options = parser.parse_args(arguments)

    async def serve() -> None:
        server = kind(first_delay=options.first_delay, delay=options.delay, keep=0)
        print(await server.start(options.port), flush=True)
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        await stopped.wait()
        await server.stop()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())

"""The load: chats over separate WebSocket connections, each asking one thing after another.

Speaks what docs/protocol.md describes, and no more than the older protocol of its peers needs: wait for `ready`,
`attach`, send messages, read until `turn_end`. `accepted` is noted where it comes and not missed where it does not.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import aiohttp
import msgspec

from bench.fake_llm import ANSWER

CONNECT_SECONDS = 30.0
AT_ONCE = 50  # connections opened at the same time
LINGER_SECONDS = 0.3  # after the last turn, for what should not come

Seconds = float


class Frame(msgspec.Struct):
    """What the client reads of a server frame; the rest is not looked at."""

    event: str = ""
    chat_id: Any = None
    text: Any = None
    turn_id: Any = None
    message_id: Any = None
    stream_id: Any = None
    id: Any = None
    code: Any = None
    detail: Any = None
    kind: Any = None
    answers: Any = None
    resuming: Any = None
    replay: Any = None
    seq: Any = None


_decode = msgspec.json.Decoder(Frame).decode
_encode = msgspec.json.Encoder().encode


class Result(msgspec.Struct):
    """What a load saw. Times are in seconds, from sending a message."""

    turns: int = 0
    seconds: Seconds = 0.0  # from the first message to the last end
    first: list[Seconds] = []
    accepted: list[Seconds] = []
    end: list[Seconds] = []
    lost: int = 0  # turns that did not end in time
    doubled: int = 0  # final texts, or ends of turn, beyond the first
    wrong: int = 0  # answers whose deltas do not make up the model's text
    errors: list[str] = []
    frames: int = 0

    @property
    def rate(self) -> float:
        return self.turns / self.seconds if self.seconds else 0.0

    def faults(self) -> str:
        """ "" where everything was as it should be."""
        found = {"lost": self.lost, "doubled": self.doubled, "wrong": self.wrong, "errors": len(self.errors)}
        said = [f"{count} {name}" for name, count in found.items() if count]
        return ", ".join([*said, *self.errors[:1]])


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile; nan of nothing."""
    if not values:
        return float("nan")
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, max(0, round(percent / 100 * len(ranked) + 0.5) - 1))]


class Chat:
    """One connection that is attached to one chat."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, chat_id: str, result: Result) -> None:
        self.socket = socket
        self.chat_id = chat_id
        self._result = result
        self._sent = 0
        self._mark = uuid4().hex[:8]  # ids are once for all connections: a repeated one is a repeated message

    async def say(self, content: str) -> None:
        self._sent += 1
        frame = {
            "type": "message",
            "chat_id": self.chat_id,
            "content": content,
            "id": f"{self._mark}-{self._sent}",
        }
        await self.socket.send_str(_encode(frame).decode())

    def abort(self) -> None:
        """Go away without a goodbye, as a phone does in a tunnel."""
        connection = self.socket._response.connection  # noqa: SLF001 - there is no public way to be impolite
        if connection is not None and connection.transport is not None:
            connection.transport.abort()

    async def frame(self) -> Frame:
        """The next frame of this chat; raises ConnectionError where the server went away."""
        while True:
            message = await self.socket.receive()
            if message.type is not aiohttp.WSMsgType.TEXT:
                raise ConnectionError(f"the socket ended: {message.type.name} {message.data}")
            self._result.frames += 1
            frame = _decode(message.data)
            if frame.chat_id in (None, self.chat_id):
                return frame

    async def turn(self, content: str, seconds: Seconds, expected: str | None) -> None:
        """Ask and read until the turn ended; what happened goes into the result."""
        result = self._result
        began = time.perf_counter()
        first = 0.0
        texts: list[str] = []
        finals = 0
        try:
            async with asyncio.timeout(seconds):
                await self.say(content)
                while True:
                    frame = await self.frame()
                    match frame.event:
                        case "delta":
                            first = first or time.perf_counter()
                            texts.append(frame.text)
                        case "message" if frame.kind in (None, "reply"):
                            first = first or time.perf_counter()
                            finals += 1
                            texts.append(frame.text)
                        case "stream_end" if not frame.resuming:
                            finals += 1
                        case "accepted":
                            result.accepted.append(time.perf_counter() - began)
                        case "error":
                            result.errors.append(f"{frame.code}: {frame.detail}")
                        case "turn_end":
                            break
        except TimeoutError:
            result.lost += 1
            return
        ended = time.perf_counter()
        result.turns += 1
        result.first.append((first or ended) - began)
        result.end.append(ended - began)
        result.doubled += max(0, finals - 1)
        if expected is not None and "".join(texts).strip() != expected.strip():
            result.wrong += 1

    async def after(self) -> None:
        """Count what still comes although nothing was asked."""
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                while True:
                    frame = await self.frame()
                    if frame.event in ("delta", "turn_end", "message"):
                        self._result.doubled += 1
        except TimeoutError:
            return


@asynccontextmanager
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield session


async def connect(session: aiohttp.ClientSession, url: str, chat_id: str, result: Result) -> Chat:
    """Open a connection and attach it to a chat."""
    async with asyncio.timeout(CONNECT_SECONDS):
        socket = await session.ws_connect(f"{url}/?client_id={chat_id}", max_msg_size=0, compress=0)
        chat = Chat(socket, chat_id, result)
        while _decode((await socket.receive()).data).event != "ready":
            pass
        await socket.send_str(_encode({"type": "attach", "chat_id": chat_id}).decode())
        while (await chat.frame()).event != "attached":
            pass
    return chat


async def run(
    url: str,
    chats: Sequence[str],
    turns: int,
    *,
    timeout: Seconds = 120.0,  # of one turn
    one_by_one: bool = False,
    expected: str | None = ANSWER,
    content: str = "hello",
) -> Result:
    """So many turns in each chat: all chats at once, or one chat after the other."""
    result = Result(first=[], end=[], accepted=[], errors=[])
    async with client() as session:
        gate = asyncio.Semaphore(AT_ONCE)

        async def opened(chat_id: str) -> Chat:
            async with gate:
                return await connect(session, url, chat_id, result)

        async def talk(chat: Chat) -> None:
            try:
                for _ in range(turns):
                    await chat.turn(content, timeout, expected)
            except ConnectionError as error:
                result.errors.append(str(error))

        open_chats = await asyncio.gather(*(opened(chat_id) for chat_id in chats))
        began = time.perf_counter()
        if one_by_one:
            for chat in open_chats:
                await talk(chat)
        else:
            await asyncio.gather(*(talk(chat) for chat in open_chats))
        result.seconds = time.perf_counter() - began
        try:
            await asyncio.gather(*(chat.after() for chat in open_chats))
        except ConnectionError as error:
            result.errors.append(str(error))
        await asyncio.gather(*(chat.socket.close() for chat in open_chats))
    return result


@asynccontextmanager
async def watching(url: str, chat: str, count: int, result: Result) -> AsyncIterator[None]:
    """Hold connections that are attached to one chat and read what comes; their frames are counted in `result`."""

    async def listen(one: Chat) -> None:
        try:
            while True:
                await one.frame()
        except ConnectionError:
            return

    async with client() as session:
        chats = [await connect(session, url, chat, result) for _ in range(count)]
        tasks = [asyncio.create_task(listen(one)) for one in chats]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def idle(url: str, count: int, *, first: int = 0) -> AsyncIterator[int]:
    """Hold connections that say nothing; yields how many there are. They answer the server's pings.

    Their client ids are numbered from `first` on.
    """
    async with client() as session:
        gate = asyncio.Semaphore(AT_ONCE)

        async def opened(number: int) -> aiohttp.ClientWebSocketResponse:
            async with gate, asyncio.timeout(CONNECT_SECONDS):
                socket = await session.ws_connect(f"{url}/?client_id=idle{first + number}", compress=0)
                await socket.receive()
                return socket

        async def listen(socket: aiohttp.ClientWebSocketResponse) -> None:
            async for _ in socket:
                pass

        made = await asyncio.gather(*(opened(number) for number in range(count)), return_exceptions=True)
        sockets = [one for one in made if isinstance(one, aiohttp.ClientWebSocketResponse)]
        listeners = [asyncio.create_task(listen(socket)) for socket in sockets]
        try:
            yield sum(not socket.closed for socket in sockets)
        finally:
            for listener in listeners:
                listener.cancel()
            await asyncio.gather(*listeners, return_exceptions=True)
            for socket in sockets:
                if socket._response.connection is not None:  # noqa: SLF001 - 3,000 polite goodbyes take too long
                    socket._response.close()  # noqa: SLF001

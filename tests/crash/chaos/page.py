"""One client as the protocol document asks for: sends again until accepted, replays, reconciles, drops repeats."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
import websockets

from tests.crash.chaos.plan import Say
from tests.crash.chaos.users import Chat, Seen

AGAIN = {"store_full", "store_error", "stopping", "unavailable"}  # not accepted: send it later
AGAIN_SECONDS = 0.3
RECONNECT_SECONDS = 0.05


class Place:
    """A chat of this client: where its replay stands, and what was not accepted yet."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self.epoch = ""
        self.seq = -1
        self.outgoing: dict[str, Say] = {}  # mark → message
        self.known: dict[str, Seen] = {}  # by message id
        self.pages: list[dict[str, Any]] = []  # of the history, while it is being read


class Page:
    """One connection after another. With `acks` replies come by delivery alone; without, missed ones from history."""

    def __init__(self, url: Callable[[], str], *, acks: bool, problems: list[str]) -> None:
        self.acks = acks
        self.places: dict[str, Place] = {}
        self.receipts: dict[str, str] = {}  # mark → the gateway's id
        self.repeats = 0  # replies that came again under their id
        self.away_until = 0.0
        self.deaf_until = 0.0
        self._url = url
        self._problems = problems
        self._socket: websockets.ClientConnection | None = None
        self._again: set[asyncio.Task[None]] = set()
        self._last: Say | None = None

    async def run(self) -> None:
        while True:
            await self._until("away_until")
            url = self._url()
            if url:
                with contextlib.suppress(OSError, websockets.WebSocketException, TimeoutError, EOFError):
                    await self._life(url)
            self._socket = None
            await asyncio.sleep(RECONNECT_SECONDS)

    async def say(self, message: Say, chat_id: str) -> None:
        self.places[chat_id].outgoing[message.mark] = message
        self._last = message
        await self._post(message, chat_id)

    def drop(self) -> None:
        """Cut the connection, as a train in a tunnel does."""
        if self._socket is not None:
            self._socket.transport.abort()

    def repeat(self) -> None:
        """Send the last message once more, as a client does that missed its receipt."""
        if self._last is not None:
            for chat_id, place in self.places.items():
                if place.chat.said and self._last in place.chat.said:
                    self._later(self._post(self._last, chat_id))

    # --- one connection

    async def _life(self, url: str) -> None:
        async with websockets.connect(
            url.replace("http", "ws", 1) + "/ws", open_timeout=10, close_timeout=1, max_size=None
        ) as socket:
            self._socket = socket
            for chat_id, place in self.places.items():
                if self.acks:  # said before the first reply can come: this connection acks
                    await self._send({"type": "ack", "chat_id": chat_id, "seq": 0})
                attach: dict[str, Any] = {"type": "attach", "chat_id": chat_id}
                if place.epoch:
                    attach |= {"epoch": place.epoch, "after": place.seq}
                await self._send(attach)
                for message in list(place.outgoing.values()):
                    await self._post(message, chat_id)
            async for text in socket:
                await self._until("deaf_until")
                await self._take(msgspec.json.decode(text))

    async def _until(self, name: str) -> None:
        while (left := getattr(self, name) - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(left)

    async def _post(self, message: Say, chat_id: str) -> None:
        frame = {"type": "message", "chat_id": chat_id, "content": message.text, "id": message.mark}
        await self._send(frame)

    async def _send(self, frame: dict[str, Any]) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError, websockets.WebSocketException):
                await self._socket.send(msgspec.json.encode(frame).decode())

    def _later(self, work: Any, seconds: float = 0.0) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            await work

        task = asyncio.create_task(wait())
        self._again.add(task)
        task.add_done_callback(self._again.discard)

    async def _take(self, frame: dict[str, Any]) -> None:
        place = self.places.get(frame.get("chat_id", ""))
        event = frame["event"]
        if event == "error":
            self._refused(frame, place)
            return
        if place is None:
            return
        if event == "attached":
            place.epoch, place.seq = frame["epoch"], frame["seq"]
            if frame["snapshot"] and not self.acks:
                place.pages = []
                await self._send({"type": "history", "chat_id": frame["chat_id"], "limit": 200})
            return
        if event == "history":
            await self._history(frame, place)
            return
        if "seq" in frame:
            if frame["seq"] <= place.seq and "message_id" not in frame:
                return
            place.seq = max(place.seq, frame["seq"])
        if event == "accepted":
            self._accepted(frame, place)
        elif event in ("message", "stream_end") and frame.get("message_id"):
            await self._reply(frame, place)

    def _accepted(self, frame: dict[str, Any], place: Place) -> None:
        mark, receipt = frame["id"], frame["message_id"]
        place.outgoing.pop(mark, None)
        if self.receipts.setdefault(mark, receipt) != receipt:
            self._problems.append(f"{mark} was accepted twice: as {self.receipts[mark]} and as {receipt}")

    async def _reply(self, frame: dict[str, Any], place: Place) -> None:
        seen = Seen(frame["message_id"], frame["text"])
        known = place.known.setdefault(seen.id, seen)
        if known is seen:
            place.chat.seen.append(seen)
        else:
            self.repeats += 1
            if known.text != seen.text:
                self._problems.append(f"{seen.id} came with two texts: {known.text!r} and {seen.text!r}")
        if self.acks and "seq" in frame:
            await self._send({"type": "ack", "chat_id": frame["chat_id"], "seq": frame["seq"]})

    def _refused(self, frame: dict[str, Any], place: Place | None) -> None:
        if frame["code"] not in AGAIN:
            self._problems.append(f"a client met an error: {frame}")
            return
        message = place.outgoing.get(frame.get("id", "")) if place else None
        if place is None or message is None:
            self.drop()  # whatever it was about is asked again by the next connection
            return
        place.chat.strict = False
        self._later(self._post(message, frame["chat_id"]), AGAIN_SECONDS)

    async def _history(self, frame: dict[str, Any], place: Place) -> None:
        """Show what the history has, in its order, and after it what only came live."""
        place.pages[:0] = frame["messages"]
        if frame["before"] is not None:
            page = {"type": "history", "chat_id": frame["chat_id"], "limit": 200, "before": frame["before"]}
            await self._send(page)
            return
        shown: dict[str, Seen] = {}
        for line in place.pages:
            if line["role"] == "assistant" and "latency_ms" in line and line["content"]:
                shown[line["message_id"]] = Seen(line["message_id"], line["content"])
        for seen in place.known.values():
            if seen.id in shown and shown[seen.id].text != seen.text:
                self._problems.append(
                    f"{seen.id}: {seen.text!r} was shown, {shown[seen.id].text!r} is in the history"
                )
            shown.setdefault(seen.id, seen)
        place.known = shown
        place.chat.seen[:] = shown.values()

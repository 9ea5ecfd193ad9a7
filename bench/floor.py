"""The floor: the least Python that takes a message by WebSocket, streams a model's answer back and keeps the history.

websockets, aiohttp and a dict. It forgets everything when it ends: no disk, no prompt, no tools, no second client in
a chat. It is a limit, not a product.

    python -m bench.floor <base_url> <model> <messages of history each chat begins with>
"""

import asyncio
import json
import signal
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import msgspec
import uvloop
from websockets.asyncio.server import ServerConnection, serve

MESSAGE_BYTES = 270  # of each message that a history is prepared with


def past(count: int) -> list[dict[str, str]]:
    """A conversation of this many messages, about 300 bytes each."""
    roles = ("user", "assistant")
    return [
        {"role": roles[number % 2], "content": f"{number:05d} ".ljust(MESSAGE_BYTES, "x")}
        for number in range(count)
    ]


class Floor:
    def __init__(self, session: aiohttp.ClientSession, base_url: str, model: str, history: int) -> None:
        self._session = session
        self._url = f"{base_url}/chat/completions"
        self._model = model
        self._history = history
        self._chats: dict[str, list[dict[str, str]]] = {}

    async def __call__(self, socket: ServerConnection) -> None:
        query = parse_qs(urlsplit(socket.request.path if socket.request else "").query)
        client = query.get("client_id", ["anon"])[0]
        await socket.send(json.dumps({"event": "ready", "chat_id": client}))
        async for text in socket:
            frame = msgspec.json.decode(text)
            if frame["type"] == "attach":
                await socket.send(json.dumps({"event": "attached", "chat_id": frame["chat_id"]}))
            else:
                await self._turn(socket, frame)

    async def _turn(self, socket: ServerConnection, frame: dict[str, Any]) -> None:
        chat_id = frame["chat_id"]
        history = self._chats.get(chat_id)
        if history is None:
            history = self._chats[chat_id] = past(self._history)
        history.append({"role": "user", "content": frame["content"]})
        body = json.dumps({"model": self._model, "stream": True, "messages": history}).encode()
        parts: list[str] = []
        async with self._session.post(self._url, data=body) as response:
            async for line in response.content:
                if not line.startswith(b"data: {"):
                    continue
                choices = msgspec.json.decode(line[6:])["choices"]
                text = choices[0]["delta"].get("content") if choices else None
                if text:
                    parts.append(text)
                    delta = {"event": "delta", "chat_id": chat_id, "text": text}
                    await socket.send(msgspec.json.encode(delta), text=True)
        history.append({"role": "assistant", "content": "".join(parts)})
        await socket.send(json.dumps({"event": "stream_end", "chat_id": chat_id}))
        await socket.send(json.dumps({"event": "turn_end", "chat_id": chat_id}))


async def main(base_url: str, model: str, history: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        floor = Floor(session, base_url, model, history)
        async with serve(floor, "127.0.0.1", 0, compression=None, backlog=4096) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            print(f"ready http://127.0.0.1:{port}", flush=True)
            await stop.wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))

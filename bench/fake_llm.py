"""A model that costs next to nothing: chat completions over SSE, every byte of an answer encoded beforehand.

The name of the model that a request asks for says how it answers:
`instant`     20 tokens, all at once
`realistic`   500 ms to the first token, then 20 tokens at 50 a second
`echo-<s>`    after <s> seconds, the `tok-…` words of the messages since the last answer: who was answered, and how often
`tools`       a call of list_dir for a message that says `with a tool`, and 20 tokens for everything else
`GET /stats` tells how many calls there were since it was last asked, and how large their bodies.

    python -m bench.fake_llm        prints `ready http://127.0.0.1:<port>/v1`
"""

import asyncio
import re
import signal
import socket

import msgspec
import uvloop
from aiohttp import web

TOKENS = tuple(f"word{number} " for number in range(20))
ANSWER = "".join(TOKENS)
FIRST_SECONDS = 0.5
TOKEN_SECONDS = 0.02
MAX_HOLD = 30.0  # seconds; a mistaken name must not hold a run for ever

_MODEL = re.compile(rb'"model"\s*:\s*"(?:[\w-]+/)?([\w.-]+)"')
_TOKEN = re.compile(r"tok-[\w-]+")
_HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}


def chunk(delta: dict[str, str], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return _event({"choices": [choice]})


def _event(fields: dict[str, object]) -> bytes:
    head = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
    return b"data: " + msgspec.json.encode({**head, **fields}) + b"\n\n"


USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
TAIL = chunk({}, "stop") + _event({"choices": [], "usage": USAGE}) + b"data: [DONE]\n\n"
CHUNKS = tuple(chunk({"content": token}) for token in TOKENS)
INSTANT = b"".join(CHUNKS) + TAIL
WITH_TOOL = "with a tool"
CALL = (
    _event(
        {
            "choices": [
                {
                    "index": 0,
                    "delta": {
                        "tool_calls": [
                            {
                                "index": 0,
                                "id": "call_1",
                                "type": "function",
                                "function": {"name": "list_dir", "arguments": '{"path": "."}'},
                            }
                        ]
                    },
                    "finish_reason": None,
                }
            ]
        }
    )
    + chunk({}, "tool_calls")
    + b"data: [DONE]\n\n"
)


class Model:
    """The server's one handler and what it counted."""

    def __init__(self) -> None:
        self.calls = 0
        self.largest = 0  # bytes of the largest request body
        self.total = 0

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "GET":
            counted = {"calls": self.calls, "largest": self.largest, "total": self.total}
            self.calls = self.largest = self.total = 0
            return web.Response(body=msgspec.json.encode(counted), content_type="application/json")
        body = await request.content.read()
        self.calls += 1
        self.total += len(body)
        self.largest = max(self.largest, len(body))
        named = _MODEL.search(body)
        name = named.group(1).decode() if named else "instant"
        response = web.StreamResponse(headers=_HEADERS)
        await response.prepare(request)
        if name.startswith("echo-"):
            await asyncio.sleep(min(float(name.removeprefix("echo-")), MAX_HOLD))
            await response.write(chunk({"content": " ".join(unanswered(body)) or "nothing new"}) + TAIL)
        elif name == "tools" and wants_tool(body):
            await response.write(CALL)
        elif name == "realistic":
            await self._paced(response)
        else:
            await response.write(INSTANT)
        await response.write_eof()
        return response

    async def _paced(self, response: web.StreamResponse) -> None:
        """Tokens at their due times, whatever the writes before them took."""
        loop = asyncio.get_running_loop()
        due = loop.time() + FIRST_SECONDS
        for data in CHUNKS:
            await asyncio.sleep(max(0.0, due - loop.time()))
            await response.write(data)
            due += TOKEN_SECONDS
        await response.write(TAIL)


def wants_tool(body: bytes) -> bool:
    """Whether the last message is a user's that asks for a tool; the result of one is answered with words."""
    last = body[max(0, body.rfind(b'"role":"')) :]
    return last.startswith(b'"role":"user"') and WITH_TOOL.encode() in last


def unanswered(body: bytes) -> list[str]:
    """The words that mark the messages after the last finished answer."""
    words: list[str] = []
    for message in msgspec.json.decode(body)["messages"]:
        if message["role"] == "assistant" and "tok-" in str(message.get("content")):
            words = []
        elif message["role"] == "user":
            content = message["content"]
            text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
            words += [word for word in dict.fromkeys(_TOKEN.findall(text)) if word not in words]
    return words


async def serve() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    runner = web.ServerRunner(web.Server(Model(), access_log=None))
    await runner.setup()
    await web.SockSite(runner, listener, shutdown_timeout=1.0).start()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    print(f"ready http://127.0.0.1:{listener.getsockname()[1]}/v1", flush=True)
    await stop.wait()
    await runner.cleanup()


if __name__ == "__main__":
    uvloop.run(serve())

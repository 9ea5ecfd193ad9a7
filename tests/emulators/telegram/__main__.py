"""By hand: POST /people/say {"chat": 1, "text": "hi"} writes to the bot, GET /people/chat/1 shows what it said.

POST /people/edit {"chat", "message", "text"} changes a message, /people/press {"chat", "message", "data"} presses a button.
"""

import argparse
import asyncio
import contextlib
import signal

from tests.emulators.telegram.server import TOKEN, TelegramServer


async def serve(port: int, token: str) -> None:
    server = TelegramServer(token, limited=True)
    print(await server.start(port), flush=True)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    await server.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", default=TOKEN)
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(options.port, options.token))

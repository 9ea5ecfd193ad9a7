"""Slack and Telegram on loopback, and the people who write there: in a process of its own, so that it is not measured.

    python -m bench.platforms        prints `ready http://127.0.0.1:<port>`

`GET /places` tells what a gateway's configuration needs. `GET /talk/<platform>/<chats>/<turns>` has people write in
that many new direct chats, one chat after another, each message once the answer before it can be seen.
"""

import asyncio
import signal
import socket
import time
from contextlib import AsyncExitStack

import msgspec
import uvloop
from aiohttp import web

from tests.emulators.slack import SlackServer
from tests.emulators.telegram import TelegramServer

TURN_SECONDS = 15.0  # for one answer to be seen


class Talk(msgspec.Struct):
    """What people saw: the seconds of each turn that was answered, and what went wrong."""

    seconds: list[float] = []
    faults: str = ""


class People:
    def __init__(self, slack: SlackServer, telegram: TelegramServer) -> None:
        self._slack = slack
        self._telegram = telegram
        self._chats = 1_000

    async def places(self, _: web.Request) -> web.Response:
        slack, telegram = self._slack, self._telegram
        tables = {
            "slack": {
                "bot_token": slack.bot_token,
                "app_token": slack.app_token,
                "api_url": slack.api_url,
            },
            "telegram": {"token": telegram.token, "api_url": telegram.url},
        }
        return json(tables)

    async def talk(self, request: web.Request) -> web.Response:
        asked = request.match_info
        turn = {"slack": self._slack_turn, "telegram": self._telegram_turn}[asked["platform"]]
        talk = Talk()
        for _ in range(int(asked["chats"])):
            self._chats += 1
            for number in range(int(asked["turns"])):
                began = time.perf_counter()
                try:
                    await turn(self._chats, number)
                except TimeoutError:
                    talk.faults = f"no answer within {TURN_SECONDS:g} s"
                    break
                talk.seconds.append(time.perf_counter() - began)
        return json(talk)

    async def _slack_turn(self, chat: int, number: int) -> None:
        user, room = f"U{chat}", f"DU{chat}"
        if not number:
            self._slack.person(user)
        self._slack.say(room, user, f"message {number}")
        world = self._slack.workspace
        await world.until(lambda: len(world.shown(room)) > number, TURN_SECONDS)

    async def _telegram_turn(self, chat: int, number: int) -> None:
        self._telegram.say(chat, f"message {number}")
        await self._telegram.until(lambda: len(self._telegram.texts(chat)) > number, TURN_SECONDS)


def json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


async def serve() -> None:
    async with AsyncExitStack() as stack:
        slack = await stack.enter_async_context(SlackServer())
        telegram = await stack.enter_async_context(TelegramServer())
        people = People(slack, telegram)
        app = web.Application()
        app.router.add_get("/places", people.places)
        app.router.add_get("/talk/{platform}/{chats}/{turns}", people.talk)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        listener = socket.create_server(("127.0.0.1", 0))
        await web.SockSite(runner, listener).start()
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        print(f"ready http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        await stop.wait()


if __name__ == "__main__":
    uvloop.run(serve())

"""The HTTP side: calls, files, a person at the keyboard, and the faults a test asks for."""

import asyncio
import json
import socket
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Self

import msgspec
from aiohttp import web

from tests.emulators.telegram.errors import ApiError
from tests.emulators.telegram.faults import Fault
from tests.emulators.telegram.methods import Methods
from tests.emulators.telegram.rates import Rates
from tests.emulators.telegram.updates import Updates
from tests.emulators.telegram.world import Chat, Posted, World

TOKEN = "7000001:test-token"
JSON_FIELDS = ("entities", "reply_markup", "reply_parameters", "reaction", "commands", "allowed_updates")


class Call(msgspec.Struct):
    """A call as it arrived; `ok` once it was answered well."""

    method: str
    params: dict[str, Any]
    at: float
    ok: bool = False

    @property
    def chat(self) -> int:
        return int(self.params.get("chat_id", 0))


class TelegramServer:
    """One bot's API. The world behind it is `world`, the way to the bot `updates`; what went through is `calls`.

    With `limited` the platform's own limits hold; without, tests say who is flooded.
    """

    def __init__(self, token: str = TOKEN, *, limited: bool = False, **options: Any) -> None:
        self.token = token
        self.world = World(**options)
        self.methods = Methods(self.world)
        self.calls: list[Call] = []
        self.rates = Rates() if limited else None
        self.updates = Updates(self.world, self.touch, lambda: self._changed)
        self.revoked = False
        self.down = False  # connections are cut without an answer
        self.url = ""
        self._faults: dict[str, list[Fault]] = defaultdict(list)
        self._changed = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self.port = 0
        self._polls: set[asyncio.Transport] = set()

    async def start(self, port: int = 0) -> str:
        """Listen; returns the base URL."""
        app = web.Application(client_max_size=100 << 20)
        app.router.add_route("*", "/bot{token}/{method}", self._call)
        app.router.add_get("/file/bot{token}/{path:.+}", self._file)
        app.router.add_post("/people/say", self._say)
        app.router.add_post("/people/edit", self._edit)
        app.router.add_post("/people/press", self._press)
        app.router.add_get("/people/chat/{id}", self._show)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        listener = socket.create_server(("127.0.0.1", port), backlog=256)
        await web.SockSite(self._runner, listener).start()
        self.port = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self.url

    async def stop(self) -> None:
        await self.updates.close()
        if self._runner:
            await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # --- for tests -------------------------------------------------------------------------------------------

    def fail(self, method: str, *faults: Fault) -> None:
        """The next calls of a method ("*" = any that names a chat) meet these faults, in order."""
        self._faults[method.lower()].extend(faults)

    def say(self, chat: int, text: str = "", **fields: Any) -> dict[str, Any]:
        message = self.world.say(chat, text, **fields)
        self.touch()
        return message

    def edit(self, chat: int, message_id: int, text: str) -> None:
        self.world.edit(chat, message_id, text)
        self.touch()

    def press(self, chat: int, message_id: int, data: str, **fields: Any) -> str:
        query = self.world.press(chat, message_id, data, **fields)
        self.touch()
        return query

    def again(self, message: dict[str, Any]) -> int:
        """The platform sends a message once more, under a new update id."""
        update = self.world.update(message=message)
        self.touch()
        return update

    def touch(self) -> None:
        """Something changed: wake pollers and waiting tests."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def until(self, true: Callable[[], Any], seconds: float = 10.0) -> None:
        """Return once something is true of this server."""
        async with asyncio.timeout(seconds):
            while not true():
                changed = self._changed
                if not true():
                    await changed.wait()

    async def stop_polls(self) -> None:
        """Cut the polls that wait, as a network that goes away does."""
        for transport in list(self._polls):
            transport.abort()

    def chat(self, id: int) -> Chat:
        return self.world.chat(id)

    def texts(self, chat: int, thread: int | None = None) -> list[str]:
        """The bot's messages in a chat, as people have them now."""
        return [one.text for one in self.world.chat(chat).visible(thread)]

    def posts(self, chat: int) -> list[Posted]:
        return self.world.chat(chat).visible()

    def made(self, method: str, chat: int | None = None) -> list[Call]:
        return [
            one
            for one in self.calls
            if one.method.lower() == method.lower() and (chat is None or one.chat == chat)
        ]

    # --- calls -----------------------------------------------------------------------------------------------

    async def _call(self, request: web.Request) -> web.StreamResponse:
        if self.down:
            return self._cut(request)
        token, method = request.match_info["token"], request.match_info["method"]
        params = await read(request)
        call = Call(method, params, time.monotonic())
        self.calls.append(call)
        try:
            if token != self.token or self.revoked:
                raise ApiError(401, "Unauthorized")  # noqa: TRY301 - the handler below is the one way out
            fault = self._fault(method, call)
            if fault and fault.kind == "drop_before":
                return self._cut(request)
            if fault and fault.kind == "status":
                return web.Response(status=fault.code, text="<html>proxy error</html>")
            if fault and fault.kind == "error":
                raise ApiError(fault.code, fault.text, **fault.parameters)  # noqa: TRY301 - as above
            if fault and fault.kind == "hang":
                self.touch()
                await asyncio.sleep(fault.seconds)
            transport = request.transport
            if method == "getUpdates" and transport is not None:
                self._polls.add(transport)
            try:
                result = await self._do(method, params)
            finally:
                self._polls.discard(transport)
            call.ok = True
            self.touch()
            if fault and fault.kind == "drop_after":
                return self._cut(request)
            return answer({"ok": True, "result": result})
        except ApiError as error:
            self.touch()
            body: dict[str, Any] = {"ok": False, "error_code": error.code, "description": error.description}
            if error.parameters:
                body["parameters"] = error.parameters
            return answer(body, error.code)

    async def _do(self, method: str, params: dict[str, Any]) -> Any:
        match method.lower():
            case "getupdates":
                return await self.updates.get(params)
            case "setwebhook":
                return self.updates.set_webhook(params)
            case "deletewebhook":
                return self.updates.set_webhook({**params, "url": ""})
            case "getwebhookinfo":
                return {
                    "url": self.updates.webhook.get("url", ""),
                    "has_custom_certificate": False,
                    "pending_update_count": len(self.world.updates),
                }
        found = self.methods.find(method)
        if found is None:
            raise ApiError(404, "Not Found: method not found")
        if self.rates and (chat := self.world.chats.get(int(params.get("chat_id", 0)))):
            self.rates.check(method.lower(), chat)
        return found(params)

    def _fault(self, method: str, call: Call) -> Fault | None:
        for name in (method.lower(), "*" if "chat_id" in call.params else ""):
            for fault in self._faults.get(name, ()):
                if fault.chat is not None and fault.chat != call.chat:
                    continue
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.times -= 1
                if fault.times <= 0:
                    self._faults[name].remove(fault)
                return fault
        return None

    def _cut(self, request: web.Request) -> web.StreamResponse:
        """Break the connection without an answer."""
        self.touch()
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)

    # --- files, and a person at the keyboard -----------------------------------------------------------------

    async def _file(self, request: web.Request) -> web.Response:
        file_id = request.match_info["path"].split("/")[1]
        if request.match_info["token"] != self.token or file_id not in self.world.files:
            return answer({"ok": False, "error_code": 404, "description": "Not Found"}, 404)
        return web.Response(body=self.world.files[file_id][1])

    async def _say(self, request: web.Request) -> web.Response:
        body = await request.json()
        return answer(self.say(int(body["chat"]), str(body["text"]), sender=int(body.get("sender", 0))))

    async def _edit(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.edit(int(body["chat"]), int(body["message"]), str(body["text"]))
        return answer({})

    async def _press(self, request: web.Request) -> web.Response:
        body = await request.json()
        chat, message, sender = int(body["chat"]), int(body["message"]), int(body.get("sender", 0))
        return answer(self.press(chat, message, str(body["data"]), sender=sender))

    async def _show(self, request: web.Request) -> web.Response:
        chat = self.chat(int(request.match_info["id"]))
        shown = [
            {"id": one.id, "text": one.text, "edits": one.edits, "kind": one.kind, "keyboard": one.keyboard}
            for one in chat.visible()
        ]
        return answer({"messages": shown, "draft": self.methods.draft(chat), "actions": len(chat.actions)})


async def read(request: web.Request) -> dict[str, Any]:
    """A call's parameters, however they were sent; uploads are under `_files`."""
    params: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        params |= await request.json()
    elif request.method == "POST":
        for key, value in (await request.post()).items():
            if isinstance(value, web.FileField):
                params.setdefault("_files", {})[key] = (value.filename, value.file.read())
            else:
                params[key] = value
    for key in JSON_FIELDS:
        if isinstance(params.get(key), str):
            try:
                params[key] = json.loads(params[key])
            except ValueError:
                params[key] = {}
    return params


def answer(body: Any, status: int = 200) -> web.Response:
    try:
        data = msgspec.json.encode(body)
    except UnicodeEncodeError:  # half a character, which only an escape can carry
        data = json.dumps(body).encode()
    return web.Response(body=data, status=status, content_type="application/json")

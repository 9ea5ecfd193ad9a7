"""The REST beside the socket: sessions, search, commands and media, under the same principals."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal
from urllib.parse import quote

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from nanobot.channel import Address, DeadlineExceeded, SessionSummary, SessionUpdated, StoreError, new_id

from .desk import Desk
from .history import history_fields
from .media import INLINE, MAX_POST
from .office import Office
from .request import Handler, Refusal, body, decoded, reply
from .settings import OWNER
from .tasks import TaskRest

MAX_TITLE = 200
MAX_QUERY = 500
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class Rename(msgspec.Struct, frozen=True):
    title: str


class Fork(msgspec.Struct, frozen=True):
    """Where the copy ends: before a user's message, through an answer (its message id), or with the session."""

    before: str = ""
    through: str = ""


class Rest:
    """The handlers; `routes` is what the HTTP server carries."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def handlers(self) -> tuple[tuple[str, str, Handler], ...]:
        """Method, path and handler of every request there is; docs/openapi.json has them all."""
        return (
            *Office(self._desk).handlers(),
            *TaskRest(self._desk, self._visible).handlers(),
            ("GET", "/api/sessions", self.sessions),
            ("GET", "/api/sessions/{key:path}/messages", self.messages),
            ("GET", "/api/sessions/{key:path}/about", self.about),
            ("GET", "/api/sessions/{key:path}/workspace", self.workspace),
            ("GET", "/api/sessions/{key:path}/export", self.export),
            ("POST", "/api/sessions/{key:path}/fork", self.fork),
            ("PATCH", "/api/sessions/{key:path}", self.rename),
            ("DELETE", "/api/sessions/{key:path}", self.delete),
            ("GET", "/api/search", self.search),
            ("GET", "/api/commands", self.commands),
            ("POST", "/api/media", self.upload),
            ("GET", "/api/media/{id}", self.download),
        )

    def routes(self) -> list[Route]:
        paths: dict[str, dict[str, Handler]] = {}
        for method, path, handler in self.handlers():
            paths.setdefault(path, {})[method] = handler
        # Each takes every method, or another path would: `PATCH …/{key}/about` is no rename of a session `…/about`.
        return [Route(path, self._guarded(methods), methods=METHODS) for path, methods in paths.items()]

    def _guarded(self, methods: dict[str, Handler]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            response = await self._answer(methods, request)
            origin = request.headers.get("origin", "")
            if origin and origin.rstrip("/") in {
                one.rstrip("/") for one in self._desk.settings.allow_origins
            }:
                response.headers["Access-Control-Allow-Origin"] = origin
                response.headers["Access-Control-Allow-Headers"] = "Authorization, Content-Type"
                response.headers["Access-Control-Allow-Methods"] = ", ".join(methods)
                response.headers["Vary"] = "Origin"
            return response

        return endpoint

    async def _answer(self, methods: dict[str, Handler], request: Request) -> Response:
        offer = self._desk.admit(request.scope)
        if offer is None:
            return Refusal(403, "forbidden", "this Host or Origin may not ask").response
        if request.method == "OPTIONS":
            return Response(status_code=204)
        principal = self._desk.principal(offer)
        door = request.scope["extensions"]["nanobot.door"]
        if not principal:
            if offer.token:
                door["wrong"]()
            response = Refusal(
                401, "unauthorized", "a valid token is needed: Authorization: Bearer …"
            ).response
            response.headers["WWW-Authenticate"] = "Bearer"
            return response
        door["let_in"]()
        handler = methods.get("GET" if request.method == "HEAD" else request.method)
        if handler is None:
            allowed = [*methods, *(["HEAD"] if "GET" in methods else []), "OPTIONS"]
            raise HTTPException(405, headers={"Allow": ", ".join(allowed)})
        try:
            return await handler(request, principal)
        except Refusal as refusal:
            return refusal.response
        except (StoreError, DeadlineExceeded) as error:
            return Refusal(503, "unavailable", str(error)).response

    # Sessions.

    async def sessions(self, request: Request, principal: str) -> Response:
        found = await self._desk.port.sessions.list()
        if principal != OWNER:
            mine = await self._desk.owners.of(principal)
            found = [one for one in found if one.key in mine]
        limit = _number(request, "limit", 10_000)
        return reply({"sessions": [_session(one) for one in found[:limit]], "total": len(found)})

    async def messages(self, request: Request, principal: str) -> Response:
        key = await self._visible(request, principal)
        before = _number(request, "before", -1)
        limit = min(max(_number(request, "limit", 24), 1), 500)
        page = await self._desk.port.sessions.messages(key, None if before < 0 else before, limit)
        return reply({"key": key, **history_fields(page, self._desk.media)})

    async def about(self, request: Request, principal: str) -> Response:
        key = await self._visible(request, principal)
        return reply(msgspec.to_builtins(await self._desk.port.sessions.about(key)))

    async def workspace(self, request: Request, principal: str) -> Response:
        key = await self._visible(request, principal)
        return reply(await self._desk.port.sessions.workspace(key))

    async def export(self, request: Request, principal: str) -> Response:
        key = await self._visible(request, principal)
        data = await self._desk.port.sessions.export(key)
        if data is None:
            raise Refusal(404, "not_found", "there is no such session")
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(key.replace(':', '-'), safe='')}.jsonl",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        }
        return Response(data, 200, headers, media_type="application/x-ndjson")

    async def fork(self, request: Request, principal: str) -> Response:
        """Copy a session to a new chat of the caller's: how one goes on elsewhere, or from an earlier message."""
        key = await self._visible(request, principal)
        wanted = await decoded(request, Fork)
        chat_id = new_id()
        to = Address(self._desk.port.name, chat_id).key
        await self._desk.owners.store(chat_id, principal)
        turns = {"before": wanted.before, "through": wanted.through.partition(".")[0]}
        if not await self._desk.port.sessions.fork(key, to, **turns):
            await self._desk.owners.forget(chat_id)
            raise Refusal(404, "not_found", "there is no such session or message")
        self._tell(to, "metadata")
        return reply({"key": to, "chat_id": chat_id}, 201)

    async def rename(self, request: Request, principal: str) -> Response:
        key = await self._visible(request, principal)
        title = (await decoded(request, Rename)).title
        title = " ".join("".join(one if one.isprintable() else " " for one in title).split())[:MAX_TITLE]
        if not await self._desk.port.sessions.rename(key, title):
            raise Refusal(404, "not_found", "there is no such session")
        self._tell(key, "metadata")
        return reply({"key": key, "title": title})

    async def delete(self, request: Request, principal: str) -> Response:
        key = await self._visible(request, principal)
        if not await self._desk.port.sessions.delete(key):
            raise Refusal(404, "not_found", "there is no such session")
        self._tell(key, "deleted")
        channel, _, chat_id = key.partition(":")
        if channel == self._desk.port.name:
            await self._desk.owners.forget(chat_id)
            self._desk.hub.drop(chat_id)
        return reply({"key": key, "deleted": True})

    def _tell(self, key: str, scope: Literal["metadata", "deleted"]) -> None:
        """Say in every window that shows this session, or the list, that it has changed."""
        channel, _, chat_id = key.partition(":")
        self._desk.hub.updated(SessionUpdated(key, "", Address(channel, chat_id), scope))

    async def search(self, request: Request, principal: str) -> Response:
        query = request.query_params.get("q", "").replace("\0", "").strip()
        if not query or len(query) > MAX_QUERY:
            raise Refusal(400, "bad_request", f"q must be 1 to {MAX_QUERY} characters")
        limit = min(max(_number(request, "limit", 50), 1), 200)
        # A user's hits are sifted from more, so that other people's do not crowd them out.
        hits = await self._desk.port.sessions.search(query, limit if principal == OWNER else 1_000)
        if principal != OWNER:
            mine = await self._desk.owners.of(principal)
            hits = [hit for hit in hits if hit["key"] in mine][:limit]
        return reply({"hits": hits})

    async def commands(self, _request: Request, _principal: str) -> Response:
        return reply({"commands": self._desk.port.commands()})

    async def _visible(self, request: Request, principal: str) -> str:
        key: str = request.path_params["key"]
        if len(key) > 512 or "\0" in key or ":" not in key:
            raise Refusal(404, "not_found", "there is no such session")
        if not await self._desk.owners.may_see(key, principal):
            # The same answer as for one that does not exist: names of others' chats are theirs.
            raise Refusal(404, "not_found", "there is no such session")
        return key

    # Media.

    async def upload(self, request: Request, principal: str) -> Response:
        data = await body(request, MAX_POST)
        if not data:
            raise Refusal(400, "bad_request", "the body is the file, and it is empty")
        claimed = request.headers.get("content-type", "").partition(";")[0].strip()
        if claimed.startswith("multipart/"):
            raise Refusal(415, "bad_request", "send the file itself as the body, with ?name=")
        name = request.query_params.get("name", "")
        stored = await self._desk.media.put(data, name, claimed, principal)
        return reply(stored.public(), 201)

    async def download(self, request: Request, principal: str) -> Response:
        stored = await self._desk.media.find(request.path_params["id"])
        if stored is None or principal not in (stored.owner, OWNER):
            raise Refusal(404, "not_found", "there is no such file")
        disposition = "inline" if stored.mime in INLINE else "attachment"
        headers = {
            "Content-Disposition": f"{disposition}; filename*=UTF-8''{quote(stored.name, safe='')}",
            "Content-Security-Policy": "sandbox; default-src 'none'",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "private, max-age=86400, immutable",
        }
        path = self._desk.media.path(stored.id)
        if not self._desk.media.files.sealed:
            return FileResponse(path, media_type=stored.mime, headers=headers)
        try:
            data = await asyncio.to_thread(self._desk.media.files.read, path)
        except OSError:
            raise Refusal(404, "not_found", "there is no such file") from None
        return Response(data, 200, headers, media_type=stored.mime)


def _session(summary: SessionSummary) -> dict[str, Any]:
    channel, _, chat_id = summary.key.partition(":")
    return {"channel": channel, "chat_id": chat_id, "running": False, **msgspec.to_builtins(summary)}


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise Refusal(400, "bad_request", f"{name} must be a whole number")
    return int(text)

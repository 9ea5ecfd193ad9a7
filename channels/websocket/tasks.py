"""The REST of sub-sessions: what a chat delegated, what came of it, step by step, and its end."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from .desk import Desk
from .request import Handler, Refusal, reply

Visible = Callable[[Request, str], Awaitable[str]]


class TaskRest:
    """`visible` gives the session a request is about, where its principal may see it."""

    def __init__(self, desk: Desk, visible: Visible) -> None:
        self._tasks = desk.port.tasks
        self._visible = visible

    def handlers(self) -> tuple[tuple[str, str, Handler], ...]:
        return (
            ("GET", "/api/sessions/{key:path}/children", self.children),
            ("GET", "/api/sessions/{key:path}/children/{id}/trajectory", self.trajectory),
            ("POST", "/api/sessions/{key:path}/children/{id}/end", self.end),
        )

    async def children(self, request: Request, principal: str) -> Response:
        return reply({"children": await self._tasks.list(await self._visible(request, principal))})

    async def trajectory(self, request: Request, principal: str) -> Response:
        key = await self._visible(request, principal)
        full = request.query_params.get("full", "") in {"1", "true"}
        found = await self._tasks.trajectory(key, request.path_params["id"], full=full)
        if found is None:
            raise Refusal(404, "not_found", "this session delegated nothing by that id")
        return reply(found)

    async def end(self, request: Request, principal: str) -> Response:
        key = await self._visible(request, principal)
        if not await self._tasks.end(key, request.path_params["id"]):
            raise Refusal(404, "not_found", "nothing by that id runs")
        return reply({"ok": True})

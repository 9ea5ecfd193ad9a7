"""The one HTTP server: its port, its own routes, its end."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from nanobot.errors import PortTaken
from nanobot.http import Application, Guard, HttpServer, bind, build


async def healthy() -> dict[str, Any]:
    return {"status": "ok", "channels": {"slack": "ok"}}


def application(*routes: Route, ready: bool = True) -> Application:
    return build(routes, health=healthy, ready=lambda: ready, metrics=lambda: b"nanobot_up 1\n")


async def test_health_readiness_and_metrics_are_served() -> None:
    server = HttpServer(application(ready=False))
    port = await server.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as http:
        async with http.get("/healthz") as answer:
            health = (answer.status, await answer.json())
        async with http.get("/readyz") as answer:
            ready = answer.status
        async with http.get("/metrics") as answer:
            metrics = await answer.text()
    await server.stop()

    assert health == (200, {"status": "ok", "channels": {"slack": "ok"}})
    assert ready == 503
    assert metrics == "nanobot_up 1\n"


async def test_a_catch_all_of_one_channel_does_not_hide_the_routes_of_another() -> None:
    async def anything(_request: Request) -> Response:
        return PlainTextResponse("page")

    async def events(_request: Request) -> Response:
        return PlainTextResponse("slack")

    server = HttpServer(application(Route("/{path:path}", anything), Route("/slack/events", events)))
    port = await server.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as http:
        async with http.get("/slack/events") as answer:
            slack = await answer.text()
        async with http.get("/healthz") as answer:
            health = answer.status
        async with http.get("/app.js") as answer:
            page = await answer.text()
    await server.stop()

    assert (slack, health, page) == ("slack", 200, "page")


async def test_a_taken_port_is_named_with_its_remedy() -> None:
    first = HttpServer(application())
    port = await first.start()
    with pytest.raises(PortTaken, match=rf"127\.0\.0\.1:{port}.*\[http\] port"):
        await HttpServer(application(), port=port).start()
    await first.stop()
    second = HttpServer(application(), port=port)
    assert await second.start() == port
    await second.stop()


def test_an_address_that_is_not_ours_is_named() -> None:
    with pytest.raises(PortTaken, match=r"203\.0\.113\.1.*\[http\] host"):
        bind("203.0.113.1", 0)


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_an_ipv6_address_can_be_bound() -> None:
    with bind("::1", 0) as listener:
        assert listener.family == socket.AF_INET6


async def test_a_stop_waits_for_a_running_request_and_then_closes_the_port() -> None:
    started, release = asyncio.Event(), asyncio.Event()

    async def slow(_request: Request) -> Response:
        started.set()
        await release.wait()
        return PlainTextResponse("done")

    server = HttpServer(application(Route("/slow", slow)))
    port = await server.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as http:
        request = asyncio.create_task(http.get("/slow"))
        await started.wait()
        stopping = asyncio.create_task(server.stop())
        release.set()
        answer = await request
        body = await answer.text()
        await stopping
        with pytest.raises(aiohttp.ClientConnectorError):
            await http.get("/healthz")

    assert body == "done"


async def test_a_server_that_never_started_can_be_stopped() -> None:
    await HttpServer(application()).stop()


async def test_without_tokens_only_a_name_of_this_machine_is_told_anything() -> None:
    async with serving(Guard()) as url, aiohttp.ClientSession(url) as http:
        seen: dict[str, set[int]] = {}
        for host in (
            "127.0.0.1:1",
            "localhost",
            "[::1]:8765",
            "a.localhost",
            "evil.example",
            "",
            "evil.example:1",
        ):
            for path in ("/healthz", "/readyz", "/metrics"):
                async with http.get(path, headers={"Host": host}) as answer:
                    seen.setdefault(host, set()).add(answer.status)
    assert [host for host, statuses in seen.items() if statuses != {200}] == [
        "evil.example",
        "",
        "evil.example:1",
    ]
    assert seen["evil.example"] == {403}


async def test_with_tokens_metrics_and_details_are_the_owners() -> None:
    async with serving(Guard("own")) as url, aiohttp.ClientSession(url) as http:
        seen = {}
        for token in ("", "own", "wrong"):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with http.get("/metrics", headers=headers) as answer:
                status = answer.status
            async with http.get("/healthz", headers=headers) as answer:
                seen[token] = (status, sorted(await answer.json()))
    assert seen == {
        "": (401, ["status"]),
        "own": (200, ["channels", "status"]),
        "wrong": (401, ["status"]),
    }


async def test_where_only_users_have_tokens_nobody_is_told_details() -> None:
    async with (
        serving(Guard(tokens=True)) as url,
        aiohttp.ClientSession(url) as http,
        http.get("/metrics", headers={"Authorization": "Bearer "}) as answer,
    ):
        assert answer.status == 401


@asynccontextmanager
async def serving(guard: Guard) -> AsyncIterator[str]:
    async def health() -> dict[str, Any]:
        return {"status": "ok", "channels": {"slack": "the token of T1 was revoked"}}

    app = build([], health=health, ready=lambda: True, metrics=lambda: b"x 1\n", guard=guard)
    server = HttpServer(app)
    port = await server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await server.stop()

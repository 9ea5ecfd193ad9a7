"""The one HTTP server: its port, its own routes, its end."""

import asyncio
import socket
from typing import Any

import aiohttp
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from nanobot.errors import PortTaken
from nanobot.http import Application, HttpServer, bind, build


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

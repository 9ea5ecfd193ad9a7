"""Clients that are slow on purpose, come in crowds, send what is too large, or guess: none is in anybody's way."""

import asyncio
import contextlib
import io
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from websockets.exceptions import ConnectionClosed, InvalidStatus

from nanobot import connections, lobby
from nanobot.connections import PIECES, STRANGER_FRAME
from nanobot.http import HttpServer, build
from tests.channels.websocket_client import House
from tests.channels.websocket_client import house as begun

TOKENS: dict[str, Any] = {"token": "own-secret", "users": {"alice": "a-secret", "bob": "b-secret"}}
SECONDS = 10.0
Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with begun(tmp_path, **TOKENS) as gateway:
        yield gateway


async def connected(house: House) -> Pair:
    return await asyncio.open_connection("127.0.0.1", house.server.port)


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What came until the server ended the connection."""
    data = b""
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(SECONDS):
            while piece := await reader.read(65_536):
                data += piece
    return data


async def trickle(writer: asyncio.StreamWriter, piece: bytes) -> None:
    """Send a little again and again, as long as it is taken."""
    with contextlib.suppress(ConnectionError):
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01)  # the pace of a slow client is what is tried here


async def answered(house: House, token: str = "own-secret") -> int:
    async with house.http(token) as http, http.get("/api/sessions") as answer:
        return answer.status


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (b"", b""),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n", b""),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", b"x"),
        (b"", b"\r\n"),
        (b"POST /api/media HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n", b"x"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"G"),
    ],
    ids=[
        "silent",
        "half a head",
        "a head without end",
        "blank lines",
        "a body nobody wants",
        "the next head",
    ],
)
async def test_a_client_that_never_comes_to_its_point_is_cut_off(
    house: House, monkeypatch: pytest.MonkeyPatch, first: bytes, then: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    reader, writer = await connected(house)
    writer.write(first)
    slow = asyncio.create_task(trickle(writer, then)) if then else None
    await ended(reader)
    if slow:
        slow.cancel()
    writer.close()
    assert await answered(house) == 200


async def test_a_strangers_request_may_not_last_where_a_body_is_read_before_it_is_known_whose_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.3)
    gone = asyncio.Event()

    async def event(request: Request) -> Response:
        try:
            return Response(await request.body())
        except ClientDisconnect:
            gone.set()
            raise

    async def health() -> dict[str, Any]:
        return {}

    routes = [Route("/event", event, methods=["POST"])]
    server = HttpServer(build(routes, health=health, ready=lambda: True, metrics=lambda: b""))
    reader, writer = await asyncio.open_connection("127.0.0.1", await server.start())
    writer.write(b"POST /event HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n")
    slow = asyncio.create_task(trickle(writer, b"x"))
    await ended(reader)
    async with asyncio.timeout(SECONDS):
        await gone.wait()
    slow.cancel()
    writer.close()
    await server.stop()


async def test_a_socket_that_was_let_in_may_be_silent(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEAD_SECONDS", "REQUEST_SECONDS", "STALL_SECONDS"):
        monkeypatch.setattr(connections, name, 0.1)
    async with house.client("/?token=a-secret") as client:
        await client.expect("ready")
        reader, writer = await connected(house)
        await ended(reader)  # a silent stranger that came later is gone
        writer.close()
        await client.send(type="ping", id=1)
        await client.expect("pong")


async def test_a_known_clients_request_may_last(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.3)
    path = b"POST /api/media?name=a.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
    reader, writer = await connected(house)
    writer.write(path + b"Authorization: Bearer own-secret\r\n\r\n")
    slow = asyncio.create_task(trickle(writer, b"x"))
    async with asyncio.timeout(SECONDS):
        assert b"201" in await reader.readline()
    slow.cancel()
    writer.close()


async def test_a_client_that_does_not_read_its_answer_is_cut_off(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "STALL_SECONDS", 0.2)
    large = io.BytesIO(b"\0" * 16_000_000)
    async with house.http("own-secret") as http, http.post("/api/media?name=a.bin", data=large) as answer:
        url = (await answer.json())["url"]
    reader, writer = await connected(house)
    writer.write(
        f"GET {url} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer own-secret\r\n\r\n".encode()
    )
    async with asyncio.timeout(SECONDS):
        while house.server.open > 1 or not house.server.open:
            await asyncio.sleep(0.01)  # the other client's connection ends by itself
        while house.server.open:
            await asyncio.sleep(0.01)
    writer.close()
    assert len(await ended(reader)) < 16_000_000


async def test_a_crowd_of_silent_connections_keeps_nobody_out(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lobby, "MOST", 20)
    monkeypatch.setattr(lobby, "PATIENCE", 0.0)
    async with house.client("/?token=a-secret") as alice:
        await alice.expect("ready")
        crowd = [await connected(house) for _ in range(60)]
        # The server takes them in the order in which they came, so this one came last.
        assert await answered(house) == 200
        assert house.server.open <= 22
        await alice.send(type="ping", id=1)
        await alice.expect("pong")
        assert alice.socket.close_code is None
    for _, writer in crowd:
        writer.close()


async def test_sockets_that_say_nothing_keep_out_nobody_who_says_who_it_is(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lobby, "MOST", 20)
    monkeypatch.setattr(lobby, "PATIENCE", 0.0)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(30):
            await stack.enter_async_context(house.client())
        async with house.client() as client:
            await client.send(type="auth", token="a-secret")
            assert (await client.expect("ready"))["principal"] == "alice"
            assert house.server.open <= 21


async def test_thousands_that_come_back_at_once_are_all_let_in(house: House) -> None:
    async with contextlib.AsyncExitStack() as stack:
        clients = [house.client("/?token=a-secret") for _ in range(lobby.MOST + 100)]
        for client in await asyncio.gather(*map(stack.enter_async_context, clients)):
            await client.expect("ready")
        assert house.server.lobby.count == 0


async def test_a_stranger_may_say_little_and_a_known_client_much(house: House) -> None:
    async with house.client() as stranger:
        await stranger.socket.send('{"type":"auth","token":"' + "x" * STRANGER_FRAME)
        with pytest.raises(ConnectionClosed):
            await stranger.read()
    assert stranger.socket.close_code in (1009, 1006)
    async with house.client() as client:
        await client.send(type="auth", token="a-secret")
        await client.expect("ready")
        await client.send(type="message", chat_id="c", content="y" * 900_000)
        await client.expect("accepted")
    assert len((await house.arrival()).text) == 900_000


@pytest.mark.parametrize("token", ["", "a-secret"])
async def test_a_message_in_pieces_without_end_is_cut_off(house: House, token: str) -> None:
    async with house.client(f"/?token={token}" if token else "/ws") as client:
        protocol, transport = client.socket.protocol, client.socket.transport
        protocol.send_text(b"{", fin=False)
        for _ in range(PIECES + 10):
            protocol.send_continuation(b"", fin=False)
        transport.writelines(protocol.data_to_send())
        async with asyncio.timeout(SECONDS):
            await client.socket.wait_closed()
    assert client.socket.close_code in (1009, 1006)
    assert house.port.accepted == []


async def test_whoever_guesses_tokens_waits_and_the_right_one_is_let_in_all_the_same(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lobby, "STEP", 0.3)
    monkeypatch.setattr(lobby, "LONGEST", 0.3)
    began = time.monotonic()
    for _ in range(lobby.FREE + 1):
        assert await answered(house, os.urandom(4).hex()) == 401
    assert time.monotonic() - began < 0.3 * lobby.FREE, "a few wrong ones cost nothing"

    async def timed(work: Any) -> float:
        began = time.monotonic()
        await work
        return time.monotonic() - began

    async def refused(path: str, **options: Any) -> None:
        with pytest.raises(InvalidStatus):
            async with house.client(path, **options):
                pass

    async def let_in() -> None:
        async with house.client() as client:
            await client.send(type="auth", token="a-secret")
            await client.expect("ready")

    assert await timed(answered(house, "wrong")) >= 0.3
    assert await timed(refused("/?token=wrong")) >= 0.3
    assert await timed(answered(house)) >= 0.3, "else its answer would come sooner than a wrong one's"
    assert await answered(house) == 200
    assert await timed(let_in()) >= 0.3
    async with house.http() as http, http.get("/healthz") as answer:
        assert answer.status == 200


@pytest.mark.parametrize("door", ["rest", "metrics", "query", "subprotocol", "frame"])
async def test_wrong_tokens_count_at_every_door(house: House, door: str) -> None:
    before = house.server.lobby.wait("127.0.0.1")
    for _ in range(lobby.FREE + 1):
        match door:
            case "rest":
                assert await answered(house, "wrong") == 401
            case "metrics":
                async with house.http("wrong") as http, http.get("/metrics") as answer:
                    assert answer.status == 401
            case "query":
                async with house.http() as http, http.get("/api/sessions?token=wrong") as answer:
                    assert answer.status == 401
            case "subprotocol":
                async with house.client(subprotocols=["nanobot.v1", "nanobot.token.wrong"]) as client:
                    await client.expect("error")
            case "frame":
                async with house.client() as client:
                    await client.send(type="auth", token="wrong")
                    await client.expect("error")
    assert before == 0.0
    assert house.server.lobby.wait("127.0.0.1") > 0


async def test_right_tokens_and_requests_without_one_are_no_guesses(house: House) -> None:
    for _ in range(lobby.FREE * 2):
        assert await answered(house) == 200
        assert await answered(house, "") == 401
    assert house.server.lobby.wait("127.0.0.1") == 0.0

"""Who may connect, and whose chats are whose."""

import logging
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from channels.websocket.settings import read_settings
from nanobot.channel import ConfigError
from nanobot.events import SessionUpdated
from nanobot.messages import Address
from nanobot.testing_port import line
from tests.channels.websocket_client import house

TOKENS: dict[str, Any] = {"token": "own-secret", "users": {"alice": "a-secret", "bob": "b-secret"}}


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:8765"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "localhost@evil.example"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Origin": "http://127.0.0.1"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
async def test_foreign_hosts_and_origins_are_refused(tmp_path: Path, headers: dict[str, str]) -> None:
    async with house(tmp_path) as gateway, gateway.http() as http:
        upgrade = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }
        async with http.get("/ws", headers={**upgrade, **headers}) as answer:
            socket = answer.status
        async with http.get("/api/sessions", headers=headers) as answer:
            rest = answer.status

    assert (socket, rest) == (403, 403)


async def test_the_same_origin_and_listed_origins_are_welcome(tmp_path: Path) -> None:
    async with house(tmp_path, allow_origins=["https://app.example"]) as gateway:
        for origin in (gateway.url, "https://app.example"):
            async with gateway.client(origin=origin) as client:
                assert (await client.expect("ready"))["principal"] == "owner"


async def test_a_token_makes_the_principal_by_query_header_and_subprotocol(tmp_path: Path) -> None:
    async with house(tmp_path, **TOKENS) as gateway:
        async with gateway.client("/?token=a-secret") as client:
            by_query = (await client.expect("ready"))["principal"]
        async with gateway.client(additional_headers={"Authorization": "Bearer b-secret"}) as client:
            by_header = (await client.expect("ready"))["principal"]
        async with gateway.client(subprotocols=["nanobot.v1", "nanobot.token.own-secret"]) as client:
            by_subprotocol = (await client.expect("ready"))["principal"]
            chosen = client.socket.subprotocol
        async with gateway.client() as client:
            await client.send(type="auth", token="a-secret")
            by_frame = (await client.expect("ready"))["principal"]

    assert (by_query, by_header, by_subprotocol, by_frame) == ("alice", "bob", "owner", "alice")
    assert chosen == "nanobot.v1"


@pytest.mark.parametrize(
    "options", [{"path": "/?token=wrong"}, {"additional_headers": {"Authorization": "Bearer own-secre"}}]
)
async def test_a_wrong_token_is_refused_at_the_handshake(tmp_path: Path, options: dict[str, Any]) -> None:
    async with house(tmp_path, **TOKENS) as gateway:
        with pytest.raises(InvalidStatus) as refused:
            async with gateway.client(**options):
                pass

    assert refused.value.response.status_code == 401


@pytest.mark.parametrize(
    "frame", ['{"type":"auth","token":"wrong"}', '{"type":"auth","token":""}', "hello", "{}"]
)
async def test_without_a_good_token_nothing_happens_but_an_error_and_the_end(
    tmp_path: Path, frame: str
) -> None:
    async with house(tmp_path, **TOKENS) as gateway, gateway.client() as client:
        await client.socket.send(frame)
        error = await client.read()
        with pytest.raises(ConnectionClosed):
            await client.read()

    assert error["code"] == "unauthorized"
    assert client.socket.close_code == 4401
    assert gateway.port.accepted == []


async def test_a_wrong_subprotocol_token_is_told_in_a_way_a_browser_can_see(tmp_path: Path) -> None:
    wrong = ["nanobot.v1", "nanobot.token.wrong"]
    async with house(tmp_path, **TOKENS) as gateway, gateway.client(subprotocols=wrong) as client:
        error = await client.read()
        await client.socket.wait_closed()

    assert (error["code"], client.socket.close_code) == ("unauthorized", 4401)


async def test_a_chat_belongs_to_the_principal_that_opened_it(tmp_path: Path) -> None:
    async with (
        house(tmp_path, **TOKENS) as gateway,
        gateway.client("/?token=a-secret") as alice,
        gateway.client("/?token=b-secret") as bob,
        gateway.client("/?token=own-secret") as owner,
    ):
        await alice.send(type="message", chat_id="diary", content="dear diary", id="1")
        await alice.expect("accepted")
        codes = []
        for other in (bob, owner):
            for frame in (
                {"type": "attach", "chat_id": "diary"},
                {"type": "message", "chat_id": "diary", "content": "let me in"},
                {"type": "history", "chat_id": "diary"},
                {"type": "stop", "chat_id": "diary"},
            ):
                await other.send(**frame)
                codes.append((await other.expect("error"))["code"])
        message = await gateway.arrival()
        gateway.start(message)
        gateway.delta(message, "private")
        gateway.end(message, "private", stream="s1")
        await alice.expect("turn_end")
        heard = [*await bob.nothing_more(), *await owner.nothing_more()]

    assert codes == ["forbidden"] * 8
    assert heard == []
    assert len(gateway.port.accepted) == 1
    assert gateway.port.stopped == []


async def test_ownership_survives_a_restart_and_old_chats_are_the_owners(tmp_path: Path) -> None:
    async with house(tmp_path, **TOKENS) as gateway:
        async with gateway.client("/?token=a-secret") as alice:
            await alice.send(type="message", chat_id="diary", content="dear diary")
            await alice.expect("accepted")
        keys = gateway.port.keys
    async with house(tmp_path, **TOKENS) as gateway:
        for key, value in await keys.items():
            await gateway.port.keys.set(key, value)
        gateway.port.histories.lines["websocket:before-users"] = [line("user", "old")]
        async with gateway.client("/?token=b-secret") as bob:
            await bob.send(type="attach", chat_id="diary")
            diary = await bob.expect("error")
            await bob.send(type="attach", chat_id="before-users")
            old = await bob.expect("error")
            await bob.send(type="attach", chat_id="fresh")
            fresh = await bob.expect("attached")

    assert (diary["code"], old["code"], fresh["chat_id"]) == ("forbidden", "forbidden", "fresh")


async def test_session_news_of_others_stay_with_them(tmp_path: Path) -> None:
    async with (
        house(tmp_path, **TOKENS) as gateway,
        gateway.client("/?token=a-secret", origin=gateway.url) as alice,
        gateway.client("/?token=b-secret", origin=gateway.url) as bob,
        gateway.client("/?token=own-secret", origin=gateway.url) as owner,
    ):
        await alice.send(type="message", chat_id="diary", content="x")
        await alice.expect("accepted")
        await bob.send(type="watch")
        await bob.expect("ready")
        await owner.expect("ready")
        gateway.channel.show(SessionUpdated("websocket:diary", "", Address("websocket", "diary")))
        told = await alice.nothing_more()
        seen = await owner.nothing_more()
        nothing = await bob.nothing_more()

    assert [one["event"] for one in told] == ["session_updated"]
    assert [one["event"] for one in seen] == ["session_updated"]
    assert nothing == []


async def test_a_persons_other_windows_hear_of_turns_and_titles_and_nobody_elses(tmp_path: Path) -> None:
    async with (
        house(tmp_path, **TOKENS) as gateway,
        gateway.client("/?token=a-secret", origin=gateway.url) as alice,
        gateway.client("/?token=a-secret", origin=gateway.url) as window,
        gateway.client("/?token=b-secret", origin=gateway.url) as bob,
        gateway.client("/?token=own-secret", origin=gateway.url) as owner,
        gateway.http("a-secret") as http,
    ):
        await alice.send(type="message", chat_id="diary", content="x")
        message = await gateway.arrival()
        await alice.expect("accepted")
        gateway.port.histories.lines["websocket:diary"] = [line("user", "x")]
        gateway.start(message)
        gateway.end(message, "y")
        await alice.expect("turn_end")
        turn = [await one.nothing_more() for one in (alice, window, owner, bob)]
        await http.patch("/api/sessions/websocket:diary", json={"title": "Diary"})
        title = [await one.nothing_more() for one in (alice, window, owner, bob)]

    news = {"event": "session_updated", "session": "websocket:diary", "scope": "metadata", "chat_id": "diary"}
    told = [[frame for frame in frames if frame["event"] == "session_updated"] for frames in turn]
    assert told == [[], [news] * 2, [news] * 2, []]
    assert title == [[news], [news], [news], []]


async def test_a_query_token_reaches_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("uvicorn.error", "uvicorn.access", "uvicorn"):
        logging.getLogger(name).setLevel(logging.DEBUG)
    async with house(tmp_path, **TOKENS) as gateway, gateway.http() as http:
        logging.getLogger("uvicorn.error").setLevel(logging.DEBUG)
        async with http.get("/api/sessions?token=own-secret") as answer:
            assert answer.status == 200
        async with gateway.client("/?token=own-secret") as client:
            await client.expect("ready")
        with pytest.raises(InvalidStatus):
            async with gateway.client("/?token=wrong-secret"):
                pass
        assert any("WebSocket" in one.getMessage() for one in caplog.records)
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]
    server = [one.getMessage() for one in caplog.records if not one.name.startswith("websockets.client")]

    assert not [text for text in server if "-secret" in text]


@pytest.mark.parametrize(
    ("table", "word"),
    [
        ({"token": 5}, "token"),
        ({"users": {"owner": "x"}}, "owner"),
        ({"users": {"alice": ""}}, "empty"),
        ({"users": {"alice:x": "y"}}, "colon"),
        ({"token": "same", "users": {"alice": "same"}}, "same token"),
    ],
)
def test_settings_that_cannot_hold_are_named(table: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        read_settings(table)

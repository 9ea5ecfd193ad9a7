"""Messages in: what is accepted, what is not, and that a bad frame changes nothing else."""

import json
from pathlib import Path

import pytest

from nanobot.errors import StoreError, StoreFull
from nanobot.testing_port import line
from tests.channels.websocket_client import events, house


async def test_a_message_is_acknowledged_only_after_it_is_durable(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client("/?client_id=me") as client:
        ready = await client.expect("ready")
        await client.send(type="message", chat_id="work", content="hello", id="m1")
        accepted = await client.expect("accepted")
        inbound = await gateway.arrival()

    assert ready["client_id"] == "me"
    assert ready["principal"] == "owner"
    assert (accepted["chat_id"], accepted["id"]) == ("work", "m1")
    assert accepted["message_id"] == gateway.port.inbox_id(inbound)
    assert (inbound.channel, inbound.chat_id, inbound.text) == ("websocket", "work", "hello")
    assert inbound.message_id == "owner:work:m1"
    assert inbound.sender == "owner"


async def test_the_same_id_sent_twice_is_accepted_once(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client:
        await client.send(type="message", chat_id="work", content="hello", id="m1")
        first = await client.expect("accepted")
        await client.send(type="message", chat_id="work", content="hello", id="m1")
        second = await client.expect("accepted")

    assert second["message_id"] == first["message_id"]
    assert second["duplicate"] is True
    assert len(gateway.port.accepted) == 1


@pytest.mark.parametrize(
    "frame",
    [
        "just text",
        '{"content": "just text"}',
        '{"text": "just text"}',
        '{"message":"just text","x":1}',
        '{"type":"message","chat_id":null,"content":"just text","id":null,"media":null,"webui":true}',
    ],
)
async def test_plain_text_and_content_go_to_the_connections_own_chat(tmp_path: Path, frame: str) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client:
        ready = await client.expect("ready")
        await client.socket.send(frame)
        accepted = await client.expect("accepted")
        inbound = await gateway.arrival()

    assert accepted["chat_id"] == ready["chat_id"] == inbound.chat_id
    assert inbound.text == "just text"


@pytest.mark.parametrize(
    ("error", "code"),
    [(StoreFull("disk full"), "store_full"), (StoreError("no database"), "store_error")],
)
async def test_what_the_store_cannot_keep_is_not_acknowledged(
    tmp_path: Path, error: Exception, code: str
) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client:
        gateway.port.fails = error
        await client.send(type="message", chat_id="work", content="one", id="m1")
        refused = await client.expect("error")
        await client.send(type="message", chat_id="work", content="one", id="m1")
        accepted = await client.expect("accepted")

    assert (refused["code"], refused["id"], refused["chat_id"]) == (code, "m1", "work")
    assert "accepted" not in events(client.frames[:-1])
    assert accepted["id"] == "m1"


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ('{"type": "message", "content"', "bad_json"),
        ('{"a":' * 50_000, "bad_json"),
        ('{"type": "dance"}', "unknown_type"),
        ('{"type": 7}', "missing_content"),
        ("{}", "missing_content"),
        ('{"type": "message", "content": 5}', "bad_frame"),
        ('{"type": "message", "content": " "}', "missing_content"),
        ('{"type": "message", "chat_id": "a b", "content": "x"}', "bad_chat_id"),
        ('{"type": "message", "chat_id": "../etc", "content": "x"}', "bad_chat_id"),
        ('{"type": "message", "chat_id": "%s", "content": "x"}' % ("a" * 65), "bad_chat_id"),
        ('{"type": "message", "content": "x", "id": "%s"}' % ("a" * 129), "bad_frame"),
        ('{"type": "message", "content": "x", "id": "a\\nb"}', "bad_frame"),
        ('{"type": "message", "content": "\\ud800"}', "bad_json"),
        ('{"type": "message", "content": "%s"}' % ("x" * 1_048_577), "too_large"),
        ("x" * 1_048_577, "too_large"),
        ('{"type": "attach"}', "bad_frame"),
        ('{"type": "attach", "chat_id": "a", "after": "x"}', "bad_frame"),
        ('{"type": "history", "chat_id": "a", "limit": {}}', "bad_frame"),
        ('{"type": "message", "content": "x", "media": [{"data_url": "nonsense"}]}', "bad_media"),
        ('{"type": "message", "content": "x", "media": [{"id": "0123"}]}', "bad_media"),
        (b'{"type": "ping"}', "binary"),
        (b"\xff\xfe", "binary"),
    ],
)
async def test_a_bad_frame_is_answered_and_the_connection_stays(
    tmp_path: Path, frame: str | bytes, code: str
) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client:
        await client.socket.send(frame)
        error = await client.expect("error")
        await client.send(type="message", chat_id="work", content="still here", id="m1")
        await client.expect("accepted")

    assert error["code"] == code
    assert error["detail"]
    assert [message.text for message in gateway.port.accepted] == ["still here"]


async def test_nul_characters_are_removed_from_a_message(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client:
        await client.send(type="message", chat_id="work", content="a\0b", id="m1")
        inbound = await gateway.arrival()

    assert inbound.text == "ab"


async def test_invalid_utf8_in_a_text_frame_closes_with_1007_and_others_stay(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client() as bad, gateway.client() as good:
        await bad.expect("ready")
        await bad.socket.send(b"\xff\xff", text=True)
        await bad.socket.wait_closed()
        await good.send(type="message", chat_id="work", content="x", id="m1")
        await good.expect("accepted")

    assert bad.socket.close_code == 1007


async def test_other_clients_of_the_chat_see_the_message_and_clients_of_other_chats_do_not(
    tmp_path: Path,
) -> None:
    async with (
        house(tmp_path) as gateway,
        gateway.client() as one,
        gateway.client() as two,
        gateway.client() as far,
    ):
        await two.send(type="attach", chat_id="work")
        await two.expect("attached")
        await far.send(type="attach", chat_id="elsewhere")
        await far.expect("attached")
        await one.send(type="message", chat_id="work", content="hello", id="m1")
        accepted = await one.expect("accepted")
        echo = await two.expect("user_message")
        quiet = await far.nothing_more()
        own = await one.nothing_more()

    assert (echo["text"], echo["id"], echo["message_id"]) == ("hello", "m1", accepted["message_id"])
    assert accepted["seq"] == echo["seq"]
    assert quiet == []
    assert own == []


async def test_quick_messages_of_one_client_keep_their_order(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client:
        for number in range(100):
            await client.send(type="message", chat_id="work", content=str(number), id=str(number))
        receipts = [await client.expect("accepted") for _ in range(100)]

    assert [one["id"] for one in receipts] == [str(number) for number in range(100)]
    assert [message.text for message in gateway.port.accepted] == [str(number) for number in range(100)]


async def test_stop_reaches_the_session_and_says_whether_something_ran(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client:
        await client.send(type="stop", chat_id="work")
        stopped = await client.expect("stopped")

    assert gateway.port.stopped == ["websocket:work"]
    assert stopped["stopped"] is False


async def test_a_gateway_that_stops_accepts_nothing_and_says_so(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client:
        await gateway.channel.stop()
        await client.send(type="message", chat_id="work", content="x", id="m1")
        error = await client.expect("error")

    assert error["code"] == "stopping"
    assert gateway.port.accepted == []


async def test_a_picture_in_a_message_is_kept_and_shown_to_other_clients(tmp_path: Path) -> None:
    png = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
    async with house(tmp_path) as gateway, gateway.client() as one, gateway.client() as two:
        await two.send(type="attach", chat_id="work")
        await two.expect("attached")
        await one.send(
            type="message", chat_id="work", content="", media=[{"data_url": png, "name": "../a\u202e.png"}]
        )
        echo = await two.expect("user_message")
        inbound = await gateway.arrival()
        async with gateway.http() as http, http.get(echo["media"][0]["url"]) as answer:
            body = await answer.read()

    (picture,) = inbound.media
    assert (picture.name, picture.mime) == ("a.png", "image/png")
    assert Path(picture.path).read_bytes() == body
    assert Path(picture.path).parent == gateway.port.media


async def test_history_comes_in_pages_without_paths_of_this_machine(tmp_path: Path) -> None:

    async with house(tmp_path) as gateway, gateway.client() as client:
        lines = [
            line("user", "question", "t1"),
            line("assistant", "answer", "t1"),
            line("user", "more", "t2"),
        ]
        lines[0]["media"] = [{"path": "/secret/place/a.txt", "name": "a.txt"}]
        gateway.port.histories.lines["websocket:work"] = lines
        await client.send(type="history", chat_id="work", limit=2)
        last = await client.expect("history")
        await client.send(type="history", chat_id="work", limit=2, before=last["before"])
        first = await client.expect("history")

    assert [one["content"] for one in last["messages"]] == ["answer", "more"]
    assert [one["message_id"] for one in last["messages"]] == ["t1.0", "t2"]
    assert first["before"] is None
    assert first["messages"][0]["media"] == [{"name": "a.txt"}]
    assert "/secret" not in json.dumps(first)

"""Replies: who counts as served, what waits for a client, and that nothing is lost when one goes away."""

import asyncio
from pathlib import Path

import pytest

from nanobot.errors import Unreachable
from nanobot.events import TextDelta, TurnEnded, TurnStarted, Usage
from nanobot.messages import Address, Attachment, Outbound
from tests.channels.test_websocket_turns import ask
from tests.channels.websocket_client import House, house


async def test_a_reply_to_an_empty_chat_waits_and_comes_as_a_message_at_the_next_attach(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as gateway:
        reply = gateway.push("work", "while you were away")
        await gateway.port.settle()
        waiting = list(gateway.port.outbox)
        async with gateway.client() as client:
            await client.send(type="attach", chat_id="work")
            await client.expect("attached")
            message = await client.expect("message")
            await gateway.port.settle()

    assert waiting == [reply]
    assert (message["text"], message["message_id"]) == ("while you were away", reply.id)
    assert gateway.port.outbox == []


async def test_delivering_to_nobody_is_unreachable(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        with pytest.raises(Unreachable):
            await gateway.channel.deliver(Outbound("t", 0, Address("websocket", "work"), "x"))


async def test_a_client_that_left_in_mid_stream_gets_the_whole_reply_when_it_is_back(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        async with gateway.client() as client:
            message = await ask(gateway, client)
            gateway.delta(message, "Hel")
            await client.expect("delta")
        await gone(gateway)
        reply = gateway.end(message, "Hello", stream="s1", first="end")
        await waited(gateway)
        async with gateway.client() as client:
            await client.send(type="attach", chat_id="work")
            await client.expect("attached")
            frames = await client.until("turn_end")

    assert [frame["event"] for frame in frames] == ["message", "turn_end"]
    assert (frames[0]["text"], frames[0]["message_id"]) == ("Hello", reply.id)


@pytest.mark.parametrize("replays", [True, False])
async def test_a_turn_that_ran_with_nobody_there_ends_after_its_message(
    tmp_path: Path, replays: bool
) -> None:
    async with house(tmp_path) as gateway:
        async with gateway.client() as client:
            await client.send(type="message", chat_id="work", content="hello")
            accepted = await client.expect("accepted")
            message = await gateway.arrival()
            epoch = client.frames[0]["epoch"]
        await gone(gateway)
        gateway.start(message)
        gateway.delta(message, "Hel")
        reply = gateway.end(message, "Hello", stream="s1", first="end")
        await waited(gateway)
        async with gateway.client() as client:
            since = {"epoch": epoch, "after": accepted["seq"]} if replays else {}
            await client.send(type="attach", chat_id="work", **since)
            attached = await client.expect("attached")
            frames = await client.until("turn_end")

    assert attached["snapshot"] is not replays
    assert [frame["event"] for frame in frames if frame["event"] != "delta"][-2:] == ["message", "turn_end"]
    assert [frame["message_id"] for frame in frames if "message_id" in frame] == [reply.id]


async def test_a_turn_of_a_chat_that_nobody_opened_yet_is_told_with_its_end(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        place = Address("websocket", "work")
        gateway.channel.show(TurnStarted(place.key, "t1", place, ("t1",), 1_000.0))
        gateway.channel.show(TextDelta(place.key, "t1", place, "Hello", "s1"))
        reply = Outbound("t1", 0, place, "Hello", streamed=True)
        ended = TurnEnded(place.key, "t1", place, "completed", ("t1",), (reply,), "s1", 5, Usage())
        gateway.channel.show(ended)
        gateway.port.send(reply)
        await gateway.port.settle()
        async with gateway.client() as client:
            await client.send(type="attach", chat_id="work")
            await client.expect("attached")
            frames = await client.until("turn_end")

    assert [frame["event"] for frame in frames] == ["message", "turn_end"]


async def test_a_client_that_acks_is_served_only_by_its_ack(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client:
        await client.send(type="attach", chat_id="work")
        attached = await client.expect("attached")
        await client.send(type="ack", chat_id="work", seq=attached["seq"])
        await client.nothing_more()
        reply = gateway.push("work", "are you there?")
        frame = await client.expect("message")
        await client.nothing_more()
        before = list(gateway.port.outbox)
        await client.send(type="ack", chat_id="work", seq=frame["seq"])
        await gateway.port.settle()

    assert before == [reply]
    assert gateway.port.outbox == []


async def test_a_reply_that_was_not_acked_is_sent_again_with_the_same_id(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        async with gateway.client() as client:
            await client.send(type="ack", chat_id="work", seq=0)
            await client.send(type="attach", chat_id="work")
            await client.expect("attached")
            gateway.push("work", "important")
            first = await client.expect("message")
        await gateway.port.settle()
        waiting = len(gateway.port.outbox)
        async with gateway.client() as client:
            await client.send(type="attach", chat_id="work")
            again = await client.expect("message")
            await gateway.port.settle()

    assert waiting == 1
    assert again["message_id"] == first["message_id"]
    assert gateway.port.outbox == []


async def test_a_streamed_reply_that_was_not_acked_is_a_message_the_second_time(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        async with gateway.client() as client:
            await client.send(type="ack", chat_id="work", seq=0)
            message = await ask(gateway, client)
            gateway.delta(message, "Hello")
            reply = gateway.end(message, "Hello", stream="s1")
            end = await client.expect("stream_end")
            await client.expect("turn_end")
        await gateway.port.settle()
        async with gateway.client() as client:
            await client.send(type="attach", chat_id="work")
            again = await client.expect("message")

    assert end["message_id"] == again["message_id"] == reply.id


async def test_one_client_without_acks_serves_for_all(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client() as acking, gateway.client() as plain:
        await acking.send(type="ack", chat_id="work", seq=0)
        for client in (acking, plain):
            await client.send(type="attach", chat_id="work")
            await client.expect("attached")
        gateway.push("work", "hello both")
        await acking.expect("message")
        await plain.expect("message")
        await gateway.port.settle()

    assert gateway.port.outbox == []


async def test_a_client_that_owes_its_ack_too_long_is_cut_off_and_the_reply_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("channels.websocket.adapter.ACK_SECONDS", 0.05)
    async with house(tmp_path) as gateway, gateway.client() as client:
        await client.send(type="ack", chat_id="work", seq=0)
        await client.send(type="attach", chat_id="work")
        await client.expect("attached")
        gateway.push("work", "hello?")
        await client.expect("message")
        async with asyncio.timeout(5):
            await client.socket.wait_closed()
        await gateway.port.settle()

    assert len(gateway.port.outbox) == 1


async def test_a_client_that_does_not_read_is_cut_off_and_its_frames_are_not_kept(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client(max_queue=1) as slow, gateway.client() as quick:
        for client in (slow, quick):
            await client.send(type="attach", chat_id="work")
            await client.expect("attached")
        slow.socket.transport.pause_reading()
        hub = gateway.channel._hub
        text = "x" * 500_000
        for number in range(60):
            hub.chat("work").emit("notice", {"turn_id": "t", "text": text, "number": number})
            await quick.expect("notice")
        left = len(hub.chat("work").connections)
        size = hub._ring_bytes

    assert left == 1
    assert size < 9_000_000


async def test_files_of_a_reply_can_be_fetched_and_a_lost_one_is_named(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    report.write_text("<script>alert(1)</script>")
    async with house(tmp_path) as gateway, gateway.client() as client, gateway.http() as http:
        await client.send(type="attach", chat_id="work")
        await client.expect("attached")
        media = (
            Attachment(str(report), "report.html", "text/html", 25),
            Attachment("/nowhere/b.txt", "b.txt"),
        )
        gateway.port.send(Outbound("t", 0, Address("websocket", "work"), "see file", media))
        message = await client.expect("message")
        async with http.get(message["media"][0]["url"]) as answer:
            headers, body = answer.headers, await answer.text()

    assert body == "<script>alert(1)</script>"
    assert headers["Content-Type"].startswith("text/plain")
    assert headers["Content-Disposition"].startswith("attachment")
    assert headers["Content-Security-Policy"].startswith("sandbox")
    assert "url" not in message["media"][1]
    assert str(tmp_path) not in str(message)


async def gone(gateway: House) -> None:
    """Until the server has noticed that nobody is attached."""
    hub = gateway.channel._hub
    async with asyncio.timeout(5):
        while hub.chat("work").connections:
            await asyncio.sleep(0)


async def waited(gateway: House) -> None:
    """Until the reply was tried and found nobody."""
    port = gateway.port
    async with asyncio.timeout(5):
        while not port.outbox:
            await asyncio.sleep(0)
    await port.settle()

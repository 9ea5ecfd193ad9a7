"""Replies in Slack: complete, in order, once, whatever fails on the way."""

import asyncio
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from channels.slack.api import Lost
from nanobot.channel import Address, Attachment, Outbound, RetryLater, TextDelta, TurnStarted, Undeliverable
from nanobot.clock import SystemClock, deadline
from nanobot.errors import DeadlineExceeded
from nanobot.messages import new_id
from tests.channels.slack_house import House, house, long_text, seen
from tests.emulators.slack import BOT_USER, SlackServer

HELLO = f"<@{BOT_USER}> hello"


async def test_a_reply_goes_into_the_thread_of_its_question_and_is_known_by_its_id(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("C1", HELLO, raw=True)
        receipt = await gateway.channel.deliver(gateway.reply(asked, "the *answer*"))
        [posted] = gateway.workspace.by_bot("C1")

    assert (posted.thread_ts, posted.shown) == (asked.thread, "the *answer*")
    assert receipt.ref == posted.ts
    assert posted.metadata["event_payload"]["id"] == "t.0"


async def test_two_threads_at_once_get_their_own_answers(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        first = await gateway.asked("C1", HELLO, raw=True)
        second = await gateway.asked("C1", HELLO, user="U2", raw=True)
        replies = [gateway.reply(one, f"for {one.sender}", turn=one.sender) for one in (first, second)]
        await asyncio.gather(*(gateway.channel.deliver(one) for one in replies))

        assert gateway.workspace.shown("C1", first.thread) == ["for U1"]
        assert gateway.workspace.shown("C1", second.thread) == ["for U2"]


@pytest.mark.parametrize("size", [5_000, 13_000, 45_000])
async def test_a_long_answer_arrives_whole_and_in_order_without_a_refusal(tmp_path: Path, size: int) -> None:
    text = long_text(size)
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("C1", HELLO, raw=True)
        await gateway.channel.deliver(gateway.reply(asked, text))

        assert seen(gateway, "C1") == [word for word in text.split() if not word.startswith("```")]
        assert list(gateway.port.keys.values) == [f"thread:C1:{asked.thread}"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("failing", [2, 3, 4])
@pytest.mark.parametrize(
    "fault", [{"retry_after": 0.05}, {"lost": "before"}, {"lost": "after"}, {"status": 503}], ids=str
)
async def test_a_long_answer_that_fails_midway_is_completed_and_nothing_is_repeated(
    tmp_path: Path, failing: int, fault: dict[str, Any]
) -> None:
    text = long_text(45_000)
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("C1", HELLO, raw=True)
        message = gateway.reply(asked, text)
        for _ in range(failing - 1):
            gateway.slack.fail("chat.postMessage", status=0)  # lets one call through
        gateway.slack.fail("chat.postMessage", **fault)
        await delivered(gateway, message)

        assert seen(gateway, "C1") == [word for word in text.split() if not word.startswith("```")]
        assert len(gateway.workspace.by_bot("C1")) == 4


async def delivered(gateway: House, message: Outbound) -> None:
    """Deliver as the outbox does: wait as told, look before sending again what may be there."""
    unknown = False
    for _ in range(10):
        if unknown and not message.ref and await gateway.channel.find(message) is not None:
            return
        try:
            await gateway.channel.deliver(message)
        except RetryLater as error:
            await asyncio.sleep(error.seconds)
            unknown = False
        except (Lost, DeadlineExceeded):
            unknown = True
        else:
            return
    raise AssertionError("never delivered")


async def test_a_reply_whose_answer_was_lost_is_found_by_its_id(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        for chat, place in (("DU1", ""), ("C1", "thread")):
            asked = await gateway.asked(chat, HELLO, raw=True)
            message = gateway.reply(asked, "once", turn=f"turn-{chat}")
            assert await gateway.channel.find(message) is None
            gateway.slack.fail("chat.postMessage", lost="after")
            with pytest.raises(Lost):
                await gateway.channel.deliver(message)
            found = await gateway.channel.find(message)

            assert found is not None
            assert bool(asked.thread) == bool(place)
            assert [one.ts for one in gateway.workspace.by_bot(chat)] == [found.ref]


async def test_a_reply_that_nobody_asked_for_is_found_although_our_clock_was_hours_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("DU1", HELLO, raw=True)
        ahead = time.time_ns() + 3 * 3600 * 10**9
        with monkeypatch.context() as clock:
            clock.setattr("time.time_ns", lambda: ahead)
            turn = new_id()
        message = Outbound(turn, 0, asked.address, "a report")  # of a sub-session: no message asked for it
        gateway.slack.fail("chat.postMessage", lost="after")
        with pytest.raises(Lost):
            await gateway.channel.deliver(message)

        assert await gateway.channel.find(message) is not None


async def test_a_reply_that_never_arrived_is_not_found(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("DU1")
        message = gateway.reply(asked, "once")
        gateway.slack.fail("chat.postMessage", lost="before")
        with pytest.raises(Lost):
            await gateway.channel.deliver(message)

        assert await gateway.channel.find(message) is None


async def test_a_limit_on_one_chat_delays_no_other_and_is_not_asked_again_meanwhile(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        limited = await gateway.asked("DU1")
        other = await gateway.asked("DU2", user="U2")
        gateway.slack.fail("chat.postMessage", channel="DU1", retry_after=30)
        with pytest.raises(RetryLater) as raised:
            await gateway.channel.deliver(gateway.reply(limited, "later"))
        assert raised.value.seconds == 30
        with pytest.raises(RetryLater):
            await gateway.channel.deliver(gateway.reply(limited, "later"))
        await gateway.channel.deliver(gateway.reply(other, "now", turn="t2"))

        assert gateway.workspace.shown("DU1") == []
        assert gateway.workspace.shown("DU2") == ["now"]
        assert gateway.slack.counts()["chat.postMessage"] == 1


async def test_a_limit_on_edits_holds_up_no_post(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("DU1")
        receipt = await gateway.channel.deliver(gateway.reply(asked, "first"))
        gateway.slack.fail("chat.update", retry_after=30)
        edit = Outbound("t", 0, asked.address, "changed", ref=receipt.ref)
        with pytest.raises(RetryLater):
            await gateway.channel.deliver(edit)
        await gateway.channel.deliver(gateway.reply(asked, "second", turn="t2"))

        assert gateway.workspace.shown("DU1") == ["first", "second"]


async def test_a_platform_that_is_not_there_means_waiting(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("DU1")
        gateway.channel._api.client.base_url = "http://127.0.0.1:9/api/"
        with pytest.raises(RetryLater):
            await gateway.channel.deliver(gateway.reply(asked, "later"))


@pytest.mark.parametrize("error", ["channel_not_found", "is_archived", "restricted_action"])
async def test_what_can_never_arrive_is_undeliverable(tmp_path: Path, error: str) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("DU1")
        gateway.slack.fail("chat.postMessage", error=error)
        with pytest.raises(Undeliverable, match=error):
            await gateway.channel.deliver(gateway.reply(asked, "no"))


async def test_a_revoked_token_is_told_with_a_remedy_and_taken_back_when_it_works_again(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("DU1")
        gateway.slack.fail("chat.postMessage", error="token_revoked")
        with pytest.raises(RetryLater):
            await gateway.channel.deliver(gateway.reply(asked, "later"))
        assert "token_revoked" in gateway.port.problem
        assert "Reinstall" in gateway.port.problem
        await gateway.channel.deliver(gateway.reply(asked, "now"))

        assert gateway.port.problem == ""
        assert gateway.slack.bot_token not in gateway.port.problem


async def test_a_form_the_platform_refuses_is_sent_as_plain_sections(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("DU1")
        gateway.slack.fail("chat.postMessage", error="invalid_blocks")
        await gateway.channel.deliver(gateway.reply(asked, "**as it is**"))
        [posted] = gateway.workspace.by_bot("DU1")

    assert posted.blocks[0]["type"] == "section"
    assert posted.shown == "**as it is**"


async def test_nobody_is_pinged_by_what_a_model_says(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("DU1")
        await gateway.channel.deliver(gateway.reply(asked, "hey <!channel> <@U2> <!here|x> <#C1>"))

        assert gateway.workspace.pings == []
        assert (
            gateway.workspace.shown("DU1")[0].replace("\u200b", "") == "hey <!channel> <@U2> <!here|x> <#C1>"
        )


async def test_a_message_that_was_removed_is_posted_anew(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("DU1")
        reply = gateway.reply(asked, "the answer")
        gone = Outbound(reply.turn, 0, reply.address, reply.text, ref="1.000100", meta=reply.meta)
        receipt = await gateway.channel.deliver(gone)

        assert gateway.workspace.shown("DU1") == ["the answer"]
        assert receipt.ref == gateway.workspace.by_bot("DU1")[0].ts


def attachment(folder: Path, name: str, data: bytes) -> Attachment:
    path = folder / name
    path.write_bytes(data)
    return Attachment(str(path), name, size=len(data))


@pytest.mark.parametrize(
    ("method", "fault"),
    [
        ("files.getUploadURLExternal", {"retry_after": 0.05}),
        ("files.completeUploadExternal", {"lost": "after"}),
        ("files.completeUploadExternal", {"lost": "before"}),
        ("chat.postMessage", {"lost": "after"}),
    ],
    ids=str,
)
async def test_files_are_sent_once_with_their_text(
    tmp_path: Path, method: str, fault: dict[str, Any]
) -> None:
    media = (attachment(tmp_path, "a.txt", b"aaa"), attachment(tmp_path, "b.txt", b"bbb"))
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("C1", HELLO, raw=True)
        gateway.slack.fail(method, **fault)
        await delivered(gateway, gateway.reply(asked, "two files", media=media))
        posts = gateway.workspace.by_bot("C1", asked.thread)

    assert [one.shown for one in posts if not one.files] == ["two files"]
    assert [file["name"] for one in posts for file in one.files] == ["a.txt", "b.txt"]


async def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    media = (Attachment(str(tmp_path / "gone.txt"), "gone.txt"),)
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("DU1")
        await gateway.channel.deliver(gateway.reply(asked, "", media=media))

        assert "gone.txt" in gateway.workspace.shown("DU1")[0]


async def test_an_edit_full_of_angle_brackets_arrives(tmp_path: Path) -> None:
    page = "```html\n" + "<p>a &amp; b</p>\n" * 400 + "```"
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("DU1")
        receipt = await gateway.channel.deliver(gateway.reply(asked, "one moment"))
        edit = Outbound("t", 0, asked.address, page, ref=receipt.ref, meta=asked.meta)
        await gateway.channel.deliver(edit)

        assert gateway.workspace.shown("DU1") == [page]


async def test_a_command_where_the_bot_is_no_member_is_answered_to_its_giver(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        gateway.workspace.channel("C9", member=False)
        assert await gateway.slack.slash("C9", "U1", "status").acked()
        asked = await gateway.arrival()
        await gateway.channel.deliver(gateway.reply(asked, "idle"))

    assert gateway.workspace.responses == [{"response_type": "ephemeral", "text": "idle"}]


async def test_deliveries_still_work_after_the_stop(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("DU1")
        await gateway.channel.stop()
        await gateway.channel.deliver(gateway.reply(asked, "last words"))

        assert gateway.workspace.shown("DU1") == ["last words"]


async def test_a_reply_to_nobody_in_particular_is_found_by_its_time(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        message = Outbound("t-none", 0, Address("slack", "DU1"), "hello")
        async with deadline(5, "delivering"):
            await gateway.channel.deliver(message)

        assert await gateway.channel.find(message) is not None


class Wall(SystemClock):
    """A clock that can be set."""

    def __init__(self, off: float = 0.0) -> None:
        self.off = off  # seconds

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.off)

    def new_id(self, monkeypatch: pytest.MonkeyPatch) -> str:
        """An id of a turn that begins now by this clock."""
        with monkeypatch.context() as patch:
            stamp = int(self.now().timestamp() * 1e9)
            patch.setattr(time, "time_ns", lambda: stamp)
            return new_id()


@pytest.mark.parametrize("resumed", [None, False, True], ids=["only committed", "begun anew", "resumed"])
@pytest.mark.parametrize("offs", [(0, -1_200, 0), (2_400, 0, 0), (-2_400, 0, 0), (0, 2_400, 0)], ids=str)
async def test_a_preview_of_an_earlier_life_becomes_the_answer_however_the_clock_was_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offs: tuple[float, float, float], resumed: bool | None
) -> None:
    """`offs`: by how many seconds our clock was wrong in the first life, at the begin of the second, and in it."""
    async with SlackServer() as slack:
        clock = Wall(offs[0])
        async with house(tmp_path / "first", slack, clock=clock) as first:
            asked = await first.asked("DU1")
            turn = clock.new_id(monkeypatch)
            where = first.begin(asked, turn)
            first.channel.show(TextDelta(*where, "s", "half an answer"))
            await first.workspace.until(lambda: first.workspace.shown("DU1"))
        clock = Wall(offs[1])
        async with house(tmp_path / "second", slack, clock=clock) as second:
            clock.off = offs[2]
            if resumed is not None:
                second.channel.show(TurnStarted(*where, (turn,), 1_000.0, resumed))
            await second.channel.deliver(second.reply(asked, "the answer", turn=turn))

            assert second.workspace.shown("DU1") == ["the answer"]

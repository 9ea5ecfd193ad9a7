"""Real gateways on the emulated Bot API, killed at the worst moments: each message is answered, once, in order."""

import asyncio
import os
import random
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.crash.process import GatewayProcess
from tests.emulators.openai import OpenAIServer
from tests.emulators.telegram import TelegramServer, drop_after, flood, hang

KILLS = int(os.environ.get("NANOBOT_KILLS", "12")) // 4
ANN, GROUP = 11, -100_500
Start = Callable[..., GatewayProcess]


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


@pytest.fixture
async def gateway(tmp_path: Path, telegram: TelegramServer) -> AsyncIterator[Start]:
    made: list[GatewayProcess] = []
    async with OpenAIServer() as model:

        def make(**settings: str) -> GatewayProcess:
            table = {
                "enabled": "true",
                "token": f'"{telegram.token}"',
                "api_url": f'"{telegram.url}"',
                "allow_from": '["*"]',
                "patience": "0.2",
                "edit_interval": "0.2",
                "draft_interval": "0.1",
                "poll_timeout": "5",
            }
            lines = [f"{key} = {value}" for key, value in {**table, **settings}.items()]
            extra = "[channels.telegram]\n" + "\n".join(lines)
            made.append(GatewayProcess(tmp_path / "workspace", model.url, extra=extra))
            return made[-1]

        yield make
        for process in made:
            await process.kill()


@pytest.mark.parametrize(
    "moment", ["before-accept", "after-accept", "after-claim", "before-commit", "after-commit"]
)
async def test_a_kill_before_the_answer_left_brings_one_answer(
    gateway: Start, telegram: TelegramServer, moment: str
) -> None:
    process = gateway()
    await process.start(moment)
    telegram.say(ANN, "first")
    await process.dead()
    await process.start()
    await telegram.until(lambda: telegram.texts(ANN) == ["echo: first"], 30)
    telegram.say(ANN, "second")
    await telegram.until(lambda: len(telegram.texts(ANN)) > 1, 30)
    await process.terminate()

    assert telegram.texts(ANN) == ["echo: first", "echo: second"]


async def test_a_kill_while_a_groups_answer_streams_ends_in_the_same_message(
    gateway: Start, telegram: TelegramServer
) -> None:
    process = gateway()
    await process.start()
    telegram.say(GROUP, "@helper_bot hi\nSLOW 10\n" + " ".join(f"w{n}" for n in range(20)))
    await telegram.until(lambda: telegram.texts(GROUP), 30)
    await telegram.until(lambda: telegram.posts(GROUP)[0].edits > 0, 30)
    [preview] = telegram.posts(GROUP)
    await process.kill()
    edits = preview.edits
    await process.start()
    whole = "echo: [Person 42] hi\n" + " ".join(f"w{n}" for n in range(20))
    await telegram.until(lambda: telegram.posts(GROUP)[0].text == whole, 30)
    await process.terminate()
    [final] = telegram.posts(GROUP)

    assert final.id == preview.id
    assert final.edits > edits + 1, "it stood still from the kill to the end"


async def test_a_kill_while_a_private_answer_streams_brings_it_once(
    gateway: Start, telegram: TelegramServer
) -> None:
    process = gateway()
    await process.start()
    telegram.say(ANN, "SLOW 10\n" + " ".join(f"w{n}" for n in range(20)))
    await telegram.until(lambda: telegram.chat(ANN).drafts, 30)
    await process.kill()
    await process.start()
    whole = "echo: " + " ".join(f"w{n}" for n in range(20))
    await telegram.until(lambda: telegram.texts(ANN), 30)
    await process.terminate()

    assert telegram.texts(ANN) == [whole]


async def test_a_kill_while_a_file_is_fetched_loses_neither_it_nor_what_was_said_after_it(
    gateway: Start, telegram: TelegramServer
) -> None:
    process = gateway()
    await process.start()
    telegram.fail("getFile", hang(30.0))
    file_id = telegram.world.file("a.txt", b"text")
    document = {"file_id": file_id, "file_unique_id": "u", "file_name": "a.txt", "mime_type": "text/plain"}
    telegram.say(ANN, document=document, caption="read it")
    telegram.say(ANN, "please")
    await telegram.until(lambda: not telegram.world.updates, 30)  # both are confirmed, so they must be kept
    await process.kill()
    await process.start()
    await telegram.until(lambda: any("please" in text for text in telegram.texts(ANN)), 30)
    telegram.say(ANN, "end")
    await telegram.until(lambda: "echo: end" in telegram.texts(ANN), 30)
    await process.terminate()
    said = " ".join(telegram.texts(ANN))

    assert [said.count(word) for word in ("read it", "a.txt", "please")] == [1, 1, 1]
    assert said.index("read it") < said.index("please")


async def test_a_kill_after_an_edit_brings_one_answer_to_what_the_message_says_now(
    gateway: Start, telegram: TelegramServer
) -> None:
    process = gateway()
    await process.start()
    asked = telegram.say(ANN, "HANG\nwhat is 1+1")
    await telegram.until(lambda: telegram.chat(ANN).actions, 30)
    telegram.edit(ANN, asked["message_id"], "SLOW 10\n" + " ".join(f"w{n}" for n in range(20)))
    await telegram.until(lambda: not telegram.world.updates, 30)  # the edit is confirmed, so it must be kept
    await process.kill()
    await process.start()
    await telegram.until(lambda: telegram.texts(ANN), 30)
    telegram.say(ANN, "end")
    await telegram.until(lambda: "echo: end" in telegram.texts(ANN), 30)
    await process.terminate()
    first, end = telegram.texts(ANN)

    assert (first.endswith("w19"), "1+1" in first, end) == (True, False, "echo: end")


async def test_a_kill_between_the_send_and_its_mark_is_decided_by_unknown_send(
    gateway: Start, telegram: TelegramServer, tmp_path: Path
) -> None:
    process = gateway(unknown_send='"hold"')
    await process.start("before-delivered")
    telegram.say(ANN, "first")
    await process.dead()
    await process.start()
    telegram.say(ANN, "second")
    await telegram.until(lambda: len(telegram.texts(ANN)) > 1, 30)
    await process.terminate()
    with sqlite3.connect(tmp_path / "workspace" / ".nanobot" / "gateway.db") as database:
        dead = database.execute("SELECT count(*) FROM outbox WHERE status = 'dead'").fetchone()
    database.close()

    assert telegram.texts(ANN) == ["echo: first", "echo: second"]
    assert dead == (1,)


async def test_a_groups_final_is_an_edit_so_a_kill_before_its_mark_repeats_nothing(
    gateway: Start, telegram: TelegramServer
) -> None:
    process = gateway()
    await process.start("before-delivered")
    telegram.say(GROUP, "@helper_bot hi\nSLOW 10\n" + " ".join(f"w{n}" for n in range(12)))
    await process.dead()
    await process.start()
    telegram.say(GROUP, "@helper_bot second")
    await telegram.until(lambda: len(telegram.texts(GROUP)) > 1, 30)
    await process.terminate()

    words = " ".join(f"w{n}" for n in range(12))
    assert telegram.texts(GROUP) == [f"echo: [Person 42] hi\n{words}", "echo: [Person 42] second"]


async def test_a_long_answer_cut_off_between_its_messages_goes_on_where_it_was(
    gateway: Start, telegram: TelegramServer
) -> None:
    process = gateway()
    await process.start()
    telegram.fail("sendMessage", flood(2, skip=2))
    telegram.say(ANN, "LONG 3000")
    await telegram.until(lambda: len(telegram.texts(ANN)) == 2, 30)
    # Killed while it waits: the third message was refused, so all progress there is has been written.
    await telegram.until(lambda: len(telegram.made("sendMessage")) == 3, 30)
    await process.kill()
    await process.start()
    telegram.say(ANN, "END")
    await telegram.until(lambda: "echo: END" in telegram.texts(ANN), 30)
    await process.terminate()
    texts = telegram.texts(ANN)[:-1]

    assert len(" ".join(texts).split()) == 3_000
    assert len(set(texts)) == len(texts)


async def test_updates_that_came_while_it_was_down_are_answered_in_order(
    gateway: Start, telegram: TelegramServer
) -> None:
    process = gateway()
    await process.start()
    await process.kill()
    for number in range(20):
        telegram.say(ANN, f"DELAY 0\n{number}")
    await process.start()
    await telegram.until(lambda: len(answers(telegram, ANN)) >= 20, 60)
    await process.terminate()

    assert answers(telegram, ANN) == [str(number) for number in range(20)]


async def test_random_kills_with_lost_replies_leave_nothing_unanswered(
    gateway: Start, telegram: TelegramServer
) -> None:
    seed = int(os.environ.get("NANOBOT_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
    chance = random.Random(seed)
    chats = [21, 22, 23]
    sent: dict[int, list[str]] = {chat: [] for chat in chats}
    process = gateway()
    await process.start()

    async def talk() -> None:
        number = 0
        while True:
            chat = chance.choice(chats)
            sent[chat].append(f"m{number}")
            telegram.say(chat, f"m{number}")
            number += 1
            await asyncio.sleep(chance.uniform(0.02, 0.2))  # the load's pace

    talking = asyncio.create_task(talk())
    for _ in range(KILLS):
        telegram.fail("getUpdates", drop_after())
        await asyncio.sleep(chance.uniform(0.1, 0.8))  # the moment of the kill
        await process.kill()
        await process.start()
    talking.cancel()
    await telegram.until(lambda: all(set(answers(telegram, chat)) == set(sent[chat]) for chat in chats), 60)
    await process.terminate()
    repeats = 0
    for chat in chats:
        got = answers(telegram, chat)
        assert list(dict.fromkeys(got)) == sent[chat], f"seed {seed}"
        repeats += len(got) - len(sent[chat])
    # At most the send that each kill interrupted, per chat.
    assert repeats <= KILLS * len(chats), f"seed {seed}"
    print(f"seed {seed}: {KILLS} kills, {sum(map(len, sent.values()))} messages, {repeats} sent again")


def answers(telegram: TelegramServer, chat: int) -> list[str]:
    """The words that were echoed, in order, however messages were joined into turns."""
    return [word for text in telegram.texts(chat) for word in text.removeprefix("echo:").split()]

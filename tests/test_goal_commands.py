"""The commands as people find them in each chat: one table behind the help, the menus and the REST."""

from pathlib import Path

import aiohttp
import pytest

from nanobot.app import running
from nanobot.config import load
from tests.emulators.model_server import Reply
from tests.emulators.slack import SlackServer
from tests.emulators.telegram import TelegramServer
from tests.goal_seat import ANN, Desk, Phone, at, configure, page, slack_table, telegram_table
from tests.goal_worker import Scripted

GROUP = -100_500


async def test_help_menu_and_rest_come_from_one_table_in_every_channel(tmp_path: Path) -> None:
    async with Scripted() as model, TelegramServer() as telegram, SlackServer() as slack:
        slack.person("U1", "ann")
        config = load(configure(tmp_path, model, telegram_table(telegram), slack_table(slack)))
        async with running(config) as app, page(app) as browser:
            async with aiohttp.request("GET", f"{app.url}/api/commands") as answer:
                table = {one["name"]: one["description"] for one in (await answer.json())["commands"]}
            assert {"help", "new", "stop", "goal", "status", "tasks"} <= set(table)
            for seat in (browser, Phone(telegram), Desk(slack)):
                seat.say("!help" if isinstance(seat, Desk) else "/help")
                await seat.until(seat.texts)
                [told] = seat.texts()
                for name, description in table.items():
                    assert f"{'!' if isinstance(seat, Desk) else '/'}{name}" in told
                    assert description in told
            assert {one["command"] for one in telegram.world.commands} == set(table)
            slack.slash("DU1", "U1", "goal help")
            await slack.workspace.until(lambda: len(Desk(slack).texts()) == 2)
            assert "`!goal pause`" in Desk(slack).texts()[1]


@pytest.mark.parametrize("channel", ["websocket", "telegram", "slack"])
async def test_bad_input_is_one_sentence_in_every_channel(channel: str, tmp_path: Path) -> None:
    sign = "!" if channel == "slack" else "/"
    wrong = {
        f"{sign}goal    ": "There is no goal here",
        f"{sign}goal budget turns=0": "There is no goal here",
        f"{sign}goal tidy up every 99 * * * *": "is no time table",
        f"{sign}gaol tidy up": f"Did you mean {sign}goal?",
    }
    async with Scripted() as model, at(channel, tmp_path, model) as seat:
        for number, (text, told) in enumerate(wrong.items(), 1):
            seat.say(text)
            await seat.until(lambda number=number: len(seat.texts()) == number)  # type: ignore[misc]
            assert told in seat.texts()[-1]
        assert model.counters["requests"] == 0


async def test_a_strangers_press_of_a_button_in_a_group_changes_nothing(tmp_path: Path) -> None:
    async with Scripted(Reply(hang=True)) as model, TelegramServer() as telegram:
        table = telegram_table(telegram, f'["*", "{ANN}"]')
        async with running(load(configure(tmp_path, model, table))):
            telegram.say(GROUP, "@helper_bot /goal Tidy up", sender=ANN)
            await telegram.until(lambda: telegram.texts(GROUP))
            await model.until(lambda: not model.turns)
            post = telegram.posts(GROUP)[0]
            telegram.press(GROUP, post.id, "/goal cancel", sender=42)
            await telegram.until(lambda: len(telegram.texts(GROUP)) == 2)
            assert telegram.texts(GROUP)[1] == "Only people whom the owner has let in may use /goal here."
            telegram.press(GROUP, post.id, "/goal cancel", sender=ANN)
            await telegram.until(lambda: len(telegram.texts(GROUP)) == 3)
            assert telegram.texts(GROUP)[2].startswith("Cancelled")

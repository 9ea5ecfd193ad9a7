"""Slack's own limits and scopes, as the emulated platform keeps them: what does not fit is said later, and all of it."""

from pathlib import Path

import pytest

from nanobot.app import running
from nanobot.config import load
from tests.channels.slack_house import house
from tests.channels.test_slack_gateway import World, configure
from tests.emulators.openai import OpenAIServer
from tests.emulators.slack import BOT_USER, SlackServer
from tests.emulators.slack.web_api import SCOPES

WORDS = "one two three four five six"


async def test_threads_of_one_channel_share_its_limit_and_each_gets_its_answer(tmp_path: Path) -> None:
    async with SlackServer(limited=True) as slack, OpenAIServer() as model:
        slack.workspace.channel("C1")
        people = [slack.person(f"U{number}") for number in range(8)]
        async with running(load(configure(tmp_path / "workspace", slack, model))) as app:
            one = World(app, slack)
            asked = [slack.say("C1", who, f"<@{BOT_USER}> {WORDS}", raw=True)[0] for who in people]
            for message, who in zip(asked, people, strict=True):
                await one.answers("C1", f"echo: [{who.lower()}] {WORDS}", thread=message.ts, seconds=20)
        assert slack.rates
        assert slack.rates.refused < len(people), "those who waited asked again all at once"


async def test_a_message_does_not_stay_marked_as_received_where_signs_are_limited(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        gateway.slack.fail("reactions.remove", retry_after=0.3, times=2)
        asked = [await gateway.asked("DU1", str(number)) for number in range(3)]
        marked = [gateway.workspace.find("DU1", one.meta["ts"]) for one in asked]
        await gateway.workspace.until(lambda: all("eyes" in one.reactions for one in marked))
        for one in asked:
            gateway.begin(one, one.text)
            gateway.end(one, gateway.reply(one, "x", turn=one.text), turn=one.text)
        await gateway.workspace.until(
            lambda: [list(one.reactions) for one in marked] == [["white_check_mark"]] * 3
        )


async def test_a_sign_that_could_not_be_set_is_not_taken_away(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        gateway.slack.fail("reactions.add", retry_after=0.1)
        asked = await gateway.asked("DU1")
        message = gateway.workspace.find("DU1", asked.meta["ts"])
        gateway.begin(asked)
        gateway.end(asked, gateway.reply(asked, "x"))
        await gateway.workspace.until(lambda: list(message.reactions) == ["white_check_mark"])

        assert gateway.slack.counts()["reactions.remove"] == 0


@pytest.mark.parametrize("scope", sorted(set(SCOPES.split(",")) - {"chat:write"}))
async def test_an_app_without_one_of_its_scopes_still_answers(tmp_path: Path, scope: str) -> None:
    async with SlackServer() as slack, OpenAIServer() as model:
        slack.scopes = ",".join(one for one in SCOPES.split(",") if one != scope)
        slack.person("U1")
        slack.workspace.channel("C1")
        async with running(load(configure(tmp_path / "workspace", slack, model))) as app:
            one = World(app, slack)
            root, _ = slack.say("C1", "U1", "before")
            file = slack.upload("a.txt", b"text", "text/plain")
            text = f"<@{BOT_USER}> {WORDS}\nSLOW 20"
            slack.say("C1", "U1", text, raw=True, thread=root.ts, files=[file])
            await one.slack.workspace.until(lambda: slack.workspace.shown("C1"))
            await one.idle()
            await one.closed("C1")
            [answer] = slack.workspace.by_bot("C1")

    assert answer.thread_ts == root.ts
    assert WORDS in answer.shown

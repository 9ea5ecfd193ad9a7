"""Odd events and updates at the real webhooks: each is answered, none stops the ones after it."""

import json
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest

from nanobot.errors import StoreFull
from tests.channels.slack_house import House, mounted
from tests.channels.slack_house import house as slack_house
from tests.channels.telegram_house import ANN
from tests.channels.test_telegram_updates import SECRET, hooked
from tests.emulators.slack import SlackServer
from tests.fuzz.corpus import corpus
from tests.fuzz.mutate import odd
from tests.fuzz.targets import stored
from tests.security.test_web_doors import sign

SIGNING = "secret-of-the-test"
Post = Callable[..., Coroutine[Any, Any, int]]
CASES = max(60, int(os.environ.get("NANOBOT_FUZZ", "10000")) // 60)


@asynccontextmanager
async def slack_by_http(folder: Path) -> AsyncIterator[tuple[House, Post]]:
    """A Slack channel that gets its events over HTTP, and the way to send it some, signed or not."""
    async with (
        SlackServer() as slack,
        slack_house(folder, slack, app_token="", signing_secret=SIGNING) as gateway,
        mounted(gateway) as url,
        aiohttp.ClientSession() as http,
    ):

        async def post(body: bytes, *, signed: bool = True, form: bool = False) -> int:
            now = str(int(time.time()))
            proof = {"X-Slack-Request-Timestamp": now, "X-Slack-Signature": sign(SIGNING, now, body)}
            kind = "application/x-www-form-urlencoded" if form else "application/json"
            headers = {"Content-Type": kind, **(proof if signed else {})}
            async with http.post(url, data=body, headers=headers) as answer:
                return answer.status

        yield gateway, post


async def presses_and_commands(gateway: House) -> tuple[dict[str, Any], dict[str, Any]]:
    """What Slack sends when somebody presses a button of ours and when somebody gives a command."""
    command = gateway.slack.slash("DU1", "U1", "status")
    asked = await gateway.arrival()
    await gateway.channel.deliver(gateway.reply(asked, "Go on?", meta={"buttons": ["Yes"]}))
    press = gateway.slack.click(gateway.workspace.by_bot("DU1")[0], "U1", "Yes")
    await gateway.arrival()
    return press.payload, command.payload


async def test_odd_slack_requests_are_acknowledged_unless_unsigned_and_a_sound_one_after_them_arrives(
    tmp_path: Path,
) -> None:
    """A refusal would make Slack send what nobody can read three times more."""
    chance = random.Random(11)
    events: list[dict[str, Any]] = [json.loads(one) for one in corpus("slack_event")]
    async with slack_by_http(tmp_path) as (gateway, post):
        press, command = await presses_and_commands(gateway)
        for number in range(CASES):
            body, form = json.dumps(odd(chance.choice(events), chance)), number % 3 > 0
            if number % 3 == 1:
                body = urlencode({"payload": json.dumps(odd(press, chance))})
            elif number % 3 == 2:
                fields = odd(command, chance)
                body = urlencode(fields if isinstance(fields, dict) else {}, errors="replace")
            unsigned = await post(body.encode(), signed=False, form=form)
            assert unsigned == 401, f"unsigned: {body} → {unsigned}"
            status = await post(body.encode(), form=form)
            assert status == 200, f"{body} → {status}"
        for message in gateway.port.accepted:
            stored(message)
        gateway.slack.say("C1", "U2", "<@UBOT> still there?")
        while "still there?" not in (await gateway.arrival()).text:
            pass


@pytest.mark.parametrize("what", ["event", "press", "command"])
@pytest.mark.parametrize("error", [StoreFull("the disk is full"), TypeError("a fault of our own")], ids=repr)
async def test_what_could_not_be_accepted_is_not_acknowledged_and_comes_again(
    tmp_path: Path, what: str, error: Exception
) -> None:
    async with slack_by_http(tmp_path) as (gateway, post):
        press, command = await presses_and_commands(gateway)
        press["container"]["message_ts"] = press["message"]["ts"] = "9.9"  # another question
        bodies = {
            "event": corpus("slack_event")[1],
            "press": urlencode({"payload": json.dumps(press)}).encode(),
            "command": urlencode({**command, "trigger_id": "another"}).encode(),
        }
        before = len(gateway.port.accepted)
        gateway.port.fails = error
        first = await post(bodies[what], form=what != "event")
        kept = len(gateway.port.accepted) - before
        again = await post(bodies[what], form=what != "event")
    assert (first, kept) == (500, 0)
    assert (again, len(gateway.port.accepted) - before) == (200, 1)


async def test_a_body_without_end_is_cut_before_the_signature_is_looked_at(tmp_path: Path) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b"x" * (1 << 20)

    async with (
        SlackServer() as slack,
        slack_house(tmp_path, slack, app_token="", signing_secret=SIGNING) as gateway,
        mounted(gateway) as url,
        aiohttp.ClientSession() as http,
    ):
        try:
            async with http.post(url, data=endless()) as answer:
                assert answer.status == 413
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
            pass  # it hung up while we were still sending
        gateway.slack.say("C1", "U2", "<@UBOT> still there?")
        await gateway.arrival()


async def test_odd_telegram_updates_are_answered_and_a_sound_one_after_them_arrives(tmp_path: Path) -> None:
    chance = random.Random(12)
    samples: list[dict[str, Any]] = [json.loads(one) for one in corpus("telegram_update")]
    async with hooked(tmp_path) as (gateway, url), aiohttp.ClientSession() as http:
        for _ in range(CASES):
            body = json.dumps(odd(chance.choice(samples), chance))
            headers = {"X-Telegram-Bot-Api-Secret-Token": SECRET, "Content-Type": "application/json"}
            async with http.post(url, data=body, headers=headers) as answer:
                assert answer.status < 500, f"{body} → {answer.status}"
        gateway.server.say(ANN, "still there?")
        while (await gateway.arrival()).text != "still there?":
            pass

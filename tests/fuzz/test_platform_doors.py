"""Odd events and updates at the real webhooks: each is answered, none stops the ones after it."""

import json
import os
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from tests.channels.slack_house import house as slack_house
from tests.channels.slack_house import mounted
from tests.channels.telegram_house import ANN
from tests.channels.test_telegram_updates import SECRET, hooked
from tests.emulators.slack import SlackServer
from tests.fuzz.corpus import corpus
from tests.fuzz.mutate import odd
from tests.security.test_web_doors import sign

SIGNING = "secret-of-the-test"
CASES = max(60, int(os.environ.get("NANOBOT_FUZZ", "10000")) // 60)


async def test_odd_slack_events_are_answered_and_a_sound_one_after_them_arrives(tmp_path: Path) -> None:
    chance = random.Random(11)
    samples: list[dict[str, Any]] = [json.loads(one) for one in corpus("slack_event")]
    async with (
        SlackServer() as slack,
        slack_house(tmp_path, slack, app_token="", signing_secret=SIGNING) as gateway,
        mounted(gateway) as url,
        aiohttp.ClientSession() as http,
    ):
        seen: set[int] = set()
        for _ in range(CASES):
            body = json.dumps(odd(chance.choice(samples), chance)).encode()
            plain = {"Content-Type": "application/json"}
            async with http.post(url, data=body, headers=plain) as answer:
                assert 400 <= answer.status < 500, f"unsigned: {body!r} → {answer.status}"
            now = str(int(time.time()))
            proof = {"X-Slack-Request-Timestamp": now, "X-Slack-Signature": sign(SIGNING, now, body)}
            async with http.post(url, data=body, headers={**plain, **proof}) as answer:
                seen.add(answer.status)  # 500 for what Bolt cannot read: Slack then sends it again, thrice
        gateway.slack.say("C1", "U2", "<@UBOT> still there?")
        while "still there?" not in (await gateway.arrival()).text:
            pass
    assert 200 in seen


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

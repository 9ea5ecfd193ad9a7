"""Connecting to Slack: tokens, sockets that go, requests that are signed; what is said when it does not work."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from channels.slack import connection
from channels.slack.api import Lost
from channels.slack.checkup import SCOPES, examine
from nanobot import doctor
from nanobot.channel import ChannelDown, ConfigError
from nanobot.config import load
from tests.channels.slack_house import house, mounted
from tests.emulators.slack import SlackServer

HTTP: dict[str, Any] = {"app_token": "", "signing_secret": "secret-of-the-test"}


@pytest.fixture
def quick_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PING_SECONDS", 0.3)
    monkeypatch.setattr(connection, "WATCH_SECONDS", 0.1)
    monkeypatch.setattr(connection, "TELL_SECONDS", 0.5)


@pytest.mark.parametrize("how", ["drop", "refresh", "freeze"])
async def test_a_socket_that_goes_is_opened_again_and_what_was_lost_comes_again(
    tmp_path: Path, quick_pings: None, how: str
) -> None:
    async with house(tmp_path) as gateway:
        events = gateway.slack.events
        events.ack_seconds, events.retries = 0.5, 20
        if how == "freeze":
            events.frozen = True
        else:
            await getattr(events, how)()
        _, [way] = gateway.slack.say("DU1", "U1", "hello")
        async with asyncio.timeout(20):
            while events.connections < 2:
                await asyncio.sleep(0.01)
        events.frozen = False
        assert await way.acked(10)

    assert [message.text for message in gateway.port.accepted] == ["hello"]


async def test_a_long_time_without_a_socket_is_told_and_taken_back(tmp_path: Path, quick_pings: None) -> None:
    async with house(tmp_path) as gateway:
        events = gateway.slack.events
        events.refusing = True
        await events.drop()
        async with asyncio.timeout(10):
            while "socket is gone" not in gateway.port.problem:
                await asyncio.sleep(0.01)
        events.refusing = False
        async with asyncio.timeout(10):
            while gateway.port.problem:
                await asyncio.sleep(0.01)
        _, [way] = gateway.slack.say("DU1", "U1", "hello")
        assert await way.acked()


async def test_what_failed_while_slack_was_away_is_tried_as_soon_as_it_is_back(
    tmp_path: Path, quick_pings: None
) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("DU1")
        gateway.slack.fail("chat.postMessage", status=503)
        with pytest.raises(Lost):
            await gateway.channel.deliver(gateway.reply(asked, "later", turn="t2"))
        gateway.port.outbox.append(gateway.reply(asked, "later", turn="t2"))
        await gateway.slack.events.refresh()
        await gateway.workspace.until(lambda: gateway.workspace.shown("DU1") == ["later"])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"bot_token": "xoxb-wrong"}, "Web API .* invalid_auth"),
        ({"app_token": "xapp-wrong"}, "app token .*invalid_auth.*connections:write"),
        ({"api_url": "http://127.0.0.1:9/api/"}, "Web API at http://127.0.0.1:9/api/"),
    ],
    ids=str,
)
async def test_what_is_wrong_with_the_start_is_said(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    async with house(tmp_path, start=False, **settings) as gateway:
        with pytest.raises(ChannelDown, match=words) as raised:
            await gateway.channel.start()

    assert "wrong" not in str(raised.value)  # tokens are never told


async def test_a_socket_that_does_not_open_is_told_from_a_web_api_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.5)
    async with house(tmp_path, start=False) as gateway:
        gateway.slack.events.refusing = True
        with pytest.raises(ChannelDown, match="Web API answers, but no WebSocket opened"):
            await gateway.channel.start()
        gateway.slack.events.refusing = False
        await gateway.channel.start()
        await gateway.asked("DU1")


def test_without_any_way_in_it_does_not_start(tmp_path: Path) -> None:
    from channels.slack import create
    from nanobot.testing_port import FakePort

    with pytest.raises(ConfigError, match="signing_secret"):
        create(FakePort(tmp_path, {"bot_token": "xoxb-1"}, name="slack"))
    with pytest.raises(ConfigError, match="bot_token"):
        create(FakePort(tmp_path, {"app_token": "xapp-1"}, name="slack"))


async def post(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session:
        sent = {"content-type": "application/json", **headers}
        async with session.post(url, data=body, headers=sent) as answer:
            return answer.status, await answer.text()


async def test_forged_old_and_unsigned_requests_are_refused(tmp_path: Path) -> None:
    event = {
        "type": "message",
        "channel": "DU1",
        "channel_type": "im",
        "user": "U1",
        "text": "x",
        "ts": "1.1",
    }
    body = msgspec.json.encode({"type": "event_callback", "team_id": "T1", "event_id": "E", "event": event})
    async with house(tmp_path, **HTTP) as gateway, mounted(gateway) as url:
        sign = gateway.slack.events.signature
        assert (await post(url, body, sign(body, secret="another")))[0] == 401
        assert (await post(url, body, sign(body, at=1_000_000_000)))[0] == 401
        assert (await post(url, body, sign(body + b" ")))[0] == 401
        assert (await post(url, body, {}))[0] == 401
        assert (await post(url, b"\xff\xfe", sign(b"\xff\xfe")))[0] in (400, 401)
        assert gateway.port.accepted == []
        assert (await post(url, body, sign(body)))[0] == 200

    assert len(gateway.port.accepted) == 1


async def test_http_events_answer_the_challenge_and_say_not_ready_before_the_start(tmp_path: Path) -> None:
    body = msgspec.json.encode({"type": "url_verification", "challenge": "abc", "token": "x"})
    async with house(tmp_path, start=False, **HTTP) as gateway, mounted(gateway) as url:
        sign = gateway.slack.events.signature
        assert (await post(url, body, sign(body)))[0] == 503
        await gateway.channel.start()
        status, text = await post(url, body, sign(body))

    assert (status, msgspec.json.decode(text)) == (200, {"challenge": "abc"})


async def test_http_commands_presses_and_redeliveries_work_as_by_socket(tmp_path: Path) -> None:
    async with house(tmp_path, **HTTP) as gateway, mounted(gateway):
        gateway.slack.events.ack_seconds = 1
        assert await gateway.slack.slash("DU1", "U1", "status").acked()
        asked = await gateway.arrival()
        await gateway.channel.deliver(gateway.reply(asked, "Go on?", meta={"buttons": ["Yes"]}))
        [posted] = gateway.workspace.by_bot("DU1")
        assert await gateway.slack.click(posted, "U1", "Yes").acked()
        assert (await gateway.arrival()).text == "Yes"
        gateway.slack.events.lose_acks = 1
        _, [way] = gateway.slack.say("DU1", "U1", "hello")
        assert await way.acked()

    assert way.attempts == 2
    assert [message.text for message in gateway.port.accepted] == ["/status", "Yes", "hello"]


async def test_the_checkup_tells_wrong_tokens_and_missing_scopes() -> None:
    async with SlackServer() as slack:
        values = {"bot_token": slack.bot_token, "app_token": slack.app_token, "api_url": slack.api_url}
        assert [one.status for one in await examine(values)] == ["ok", "ok"]
        slack.scopes = "chat:write,im:history"
        findings = await examine({**values, "app_token": "xapp-wrong"})
        assert [one.status for one in findings] == ["ok", "warn", "fail"]
        assert "files:read" in findings[1].text
        [wrong] = await examine({**values, "bot_token": "xoxb-wrong"})

    assert "invalid_auth" in wrong.text
    assert "xoxb-wrong" not in wrong.text


async def test_doctor_tells_missing_scopes_with_their_use_and_remedy(tmp_path: Path) -> None:
    async with SlackServer() as slack:
        slack.scopes = "chat:write,im:history"
        (tmp_path / "config.toml").write_text(
            f'[channels.slack]\nenabled = true\nbot_token = "{slack.bot_token}"\n'
            f'app_token = "{slack.app_token}"\napi_url = "{slack.api_url}"\n'
        )
        [settings] = [one for one in load(tmp_path).enabled() if one.name == "slack"]
        checks = await doctor.platform(settings, tmp_path)

    [lacking] = [one for one in checks if one.status == "warn"]
    assert "files:read (files from people)" in lacking.text
    assert "reinstall" in lacking.remedy


def test_the_manifest_to_paste_asks_for_the_scopes_that_are_used() -> None:
    readme = (Path(connection.__file__).parent / "README.md").read_text("utf-8")
    manifest = readme.split("```yaml\n")[1].split("```")[0]
    assert [scope for scope in SCOPES if f"      - {scope}\n" not in manifest] == []

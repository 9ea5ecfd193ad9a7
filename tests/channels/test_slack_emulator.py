"""The emulated Slack refuses what the platform refuses."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from tests.emulators.slack import SlackServer

MARKDOWN = {"type": "markdown", "text": "x"}


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    async with SlackServer() as server:
        server.person("U1")
        server.workspace.channel("C1")
        yield server


def client(slack: SlackServer) -> AsyncWebClient:
    return AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])


@pytest.mark.parametrize(
    ("method", "args", "error"),
    [
        ("chat.postMessage", {"channel": "C9", "text": "x"}, "channel_not_found"),
        ("chat.postMessage", {"channel": "C1"}, "no_text"),
        ("chat.postMessage", {"channel": "C1", "text": "x", "markdown_text": "x"}, "markdown_text_conflict"),
        ("chat.postMessage", {"channel": "C1", "text": "x" * 40_001}, "msg_too_long"),
        ("chat.postMessage", {"channel": "C1", "markdown_text": "x" * 12_001}, "msg_too_long"),
        (
            "chat.postMessage",
            {"channel": "C1", "blocks": [{"type": "markdown", "text": "x" * 12_001}]},
            "msg_blocks_too_long",
        ),
        ("chat.postMessage", {"channel": "C1", "blocks": [MARKDOWN] * 51}, "invalid_blocks"),
        (
            "chat.postMessage",
            {"channel": "C1", "blocks": [{"type": "section", "text": {"text": "x" * 3_001}}]},
            "invalid_blocks",
        ),
        ("chat.postMessage", {"channel": "C1", "text": "x", "thread_ts": "1.1"}, "thread_not_found"),
        ("chat.postMessage", {"channel": "C1", "text": "x", "metadata": {"a": 1}}, "invalid_metadata_format"),
        ("chat.update", {"channel": "C1", "ts": "1.1", "text": "x"}, "message_not_found"),
        ("chat.startStream", {"channel": "DU1"}, "invalid_arguments"),
        ("chat.startStream", {"channel": "C1"}, "missing_recipient_team_id"),
        ("chat.appendStream", {"channel": "C1", "ts": "1.1", "markdown_text": "x"}, "message_not_found"),
        (
            "assistant.threads.setStatus",
            {"channel_id": "DU1", "thread_ts": "1.1", "status": "x"},
            "invalid_thread_ts",
        ),
        ("no.such", {}, "unknown_method"),
    ],
    ids=str,
)
async def test_what_the_platform_refuses_is_refused(
    slack: SlackServer, method: str, args: dict[str, Any], error: str
) -> None:
    with pytest.raises(SlackApiError) as raised:
        await client(slack).api_call(method, json=args)
    assert raised.value.response["error"] == error


async def test_a_stream_has_states(slack: SlackServer) -> None:
    web = client(slack)
    started = await web.api_call(
        "chat.startStream",
        json={"channel": "C1", "recipient_team_id": "T1", "recipient_user_id": "U1", "markdown_text": "a"},
    )
    place = {"channel": "C1", "ts": started["ts"]}
    await web.api_call("chat.appendStream", json={**place, "markdown_text": "b"})
    with pytest.raises(SlackApiError, match="streaming_state_conflict"):
        await web.api_call("chat.update", json={**place, "text": "x"})
    await web.api_call("chat.stopStream", json={**place, "markdown_text": "c"})
    with pytest.raises(SlackApiError, match="message_not_in_streaming_state"):
        await web.api_call("chat.appendStream", json={**place, "markdown_text": "d"})
    with pytest.raises(SlackApiError, match="msg_too_long"):
        await web.api_call("chat.update", json={**place, "text": "x" * 4_001})

    assert slack.workspace.shown("C1") == ["abc"]


@pytest.mark.parametrize(
    ("method", "args"),
    [
        ("chat.postMessage", {"channel": "C1", "text": "x"}),
        ("reactions.add", {"channel": "C1", "timestamp": "1.1", "name": "eyes"}),
        ("conversations.history", {"channel": "C1"}),
        ("files.getUploadURLExternal", {"filename": "a", "length": 1}),
    ],
)
async def test_a_token_without_the_scope_is_refused_and_told_which(
    slack: SlackServer, method: str, args: dict[str, Any]
) -> None:
    slack.scopes = "users:read"
    with pytest.raises(SlackApiError) as raised:
        await client(slack).api_call(method, json=args)

    assert raised.value.response["error"] == "missing_scope"
    assert raised.value.response["needed"] not in ("", "users:read")


async def test_methods_that_read_no_json_see_nothing_of_it(slack: SlackServer) -> None:
    web = client(slack)
    assert (await web.api_call("users.info", params={"user": "U1"}))["user"]["id"] == "U1"
    with pytest.raises(SlackApiError, match="user_not_found"):
        await web.api_call("users.info", json={"user": "U1"})


async def test_the_address_of_a_socket_opens_one_connection(slack: SlackServer) -> None:
    opened = await AsyncWebClient(slack.app_token, base_url=slack.api_url).apps_connections_open(
        app_token=slack.app_token
    )
    async with aiohttp.ClientSession() as session:
        async with session.ws_connect(opened["url"]) as socket:
            assert (await socket.receive_json())["type"] == "hello"
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await session.ws_connect(opened["url"])


async def test_the_app_hears_of_what_it_does_itself(slack: SlackServer) -> None:
    web = client(slack)
    posted = await web.chat_postMessage(channel="C1", text="a")
    await web.chat_update(channel="C1", ts=posted["ts"], text="b")
    await web.chat_delete(channel="C1", ts=posted["ts"])
    told = [one.payload["event"] for one in slack.events.sent]

    assert [one.get("subtype") for one in told] == [None, "message_changed", "message_deleted"]
    assert told[0]["bot_id"] == "B1"


async def test_a_status_goes_with_the_next_post(slack: SlackServer) -> None:
    root, _ = slack.say("DU1", "U1", "hello")
    place = {"channel_id": "DU1", "thread_ts": root.ts}
    await client(slack).api_call("assistant.threads.setStatus", json={**place, "status": "is thinking…"})
    assert slack.workspace.status("DU1", root.ts) == "is thinking…"
    await client(slack).chat_postMessage(channel="DU1", thread_ts=root.ts, text="x")

    assert slack.workspace.status("DU1", root.ts) == ""


async def test_its_limits_are_per_channel_for_posts_and_per_method_for_the_rest() -> None:
    async with SlackServer(limited=True) as slack:
        for name in ("C1", "C2"):
            slack.workspace.channel(name)
        web = client(slack)
        posted = [await web.chat_postMessage(channel="C1", text="x") for _ in range(3)]
        with pytest.raises(SlackApiError) as raised:
            await web.chat_postMessage(channel="C1", text="x")
        await web.chat_postMessage(channel="C2", text="x")
        for number in range(50):
            await web.chat_update(channel="C1", ts=posted[0]["ts"], text=str(number))
        with pytest.raises(SlackApiError) as edits:
            await web.chat_update(channel="C1", ts=posted[1]["ts"], text="y")

    assert (raised.value.response.status_code, raised.value.response.headers["Retry-After"]) == (429, "1")
    assert int(edits.value.response.headers["Retry-After"]) > 50


async def test_it_runs_by_hand() -> None:
    root = Path(__file__).parents[2]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.emulators.slack", "--port", "0", cwd=root, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout
    try:
        async with asyncio.timeout(10):
            first = (await process.stdout.readline()).decode()
        found = re.search(r"api_url = (\S+)", first)
        assert found
        answer = await AsyncWebClient(token="xoxb-test", base_url=found[1]).auth_test()
        assert answer["user_id"] == "UBOT"
    finally:
        process.kill()
        await process.wait()

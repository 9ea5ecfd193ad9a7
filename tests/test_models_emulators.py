"""The emulated providers: refuse what the platforms refuse, and run as processes of their own."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.emulators.anthropic import AnthropicServer
from tests.emulators.model_server import ModelServer
from tests.emulators.openai import OpenAIServer


async def status(server: ModelServer, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    headers = {"anthropic-version": "2023-06-01"}
    path = server.path.removeprefix(server.prefix)
    async with (
        aiohttp.ClientSession() as session,
        session.post(server.url + path, json=body, headers=headers) as got,
    ):
        return got.status, await got.json()


CALL = {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "narrator", "content": "x"}],
        [{"role": "tool", "tool_call_id": "c", "content": "out"}],
        [{"role": "assistant", "content": None, "tool_calls": [CALL]}, {"role": "user", "content": "x"}],
        [{"role": "assistant", "content": None, "tool_calls": [CALL]}],
        [{"role": "assistant", "content": None}],
        [{"role": "user", "content": 5}],
    ],
)
async def test_chat_completions_refuses_what_the_platform_refuses(messages: list[Any]) -> None:
    async with OpenAIServer() as server:
        code, body = await status(server, {"model": "m", "messages": messages})
    assert code == 400
    assert body["error"]["message"]


USE = {"type": "tool_use", "id": "c", "name": "t", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c", "content": "out"}
TEXT = {"type": "text", "text": "x"}


def said(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [said("assistant", TEXT)],
        [said("user", TEXT), said("user", TEXT)],
        [said("user", TEXT), said("assistant", TEXT)],
        [said("user", RESULT)],
        [said("user", TEXT), said("assistant", USE), said("user", TEXT)],
        [said("user", TEXT), said("assistant", USE), said("user", TEXT, RESULT)],
        [said("user", {"type": "text", "text": " "})],
        [said("user")],
        [said("user", *[{**TEXT, "cache_control": {"type": "ephemeral"}}] * 5)],
    ],
)
async def test_messages_refuses_what_the_platform_refuses(messages: list[Any]) -> None:
    async with AnthropicServer() as server:
        code, body = await status(server, {"model": "m", "max_tokens": 5, "messages": messages})
    assert code == 400
    assert body["error"]["type"] == "invalid_request_error"


async def test_a_good_request_is_answered_without_streaming_too() -> None:
    question = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi there"}]}
    async with OpenAIServer() as openai, AnthropicServer() as anthropic:
        _, one = await status(openai, question)
        _, two = await status(anthropic, question)
        assert openai.stats() == {"requests": 1, "finished": 1, "in_flight": 0, "most_in_flight": 1}
    assert one["choices"][0]["message"]["content"] == "echo: hi there"
    assert two["content"] == [{"type": "text", "text": "echo: hi there"}]


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
async def test_an_emulator_runs_as_a_process_and_says_where(protocol: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"tests.emulators.{protocol}", "--port", "0"),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[1],
    )
    assert process.stdout is not None
    async with asyncio.timeout(20):
        url = (await process.stdout.readline()).decode().strip()
        stats = url.removesuffix("/v1") + "/_stats"
        async with aiohttp.ClientSession() as session, session.get(stats) as got:
            assert await got.json() == {"in_flight": 0, "most_in_flight": 0}
        process.terminate()
        assert await process.wait() == 0

"""The Anthropic driver against a real server that speaks the protocol and refuses what the platform refuses."""

from collections.abc import AsyncIterator

import pytest

from nanobot.contracts.model import NOON
from nanobot.messages import Line
from nanobot.model import Failed, Finished, ModelRequest, Reasoning, Text, ToolCall, ToolSpec
from nanobot.models.anthropic import AnthropicModel
from nanobot.models.http import HttpClient
from tests.emulators.anthropic import AnthropicServer
from tests.emulators.model_server import Call, Reply
from tests.emulators.settings import Settings, asks, collect, text_of


@pytest.fixture
async def server() -> AsyncIterator[AnthropicServer]:
    async with AnthropicServer() as running:
        yield running


@pytest.fixture
async def model(server: AnthropicServer) -> AsyncIterator[AnthropicModel]:
    pool = HttpClient()
    settings = Settings(kind="anthropic", base_url=server.url)
    yield AnthropicModel("anthropic/claude-test", settings, pool, context_window=1000)
    await pool.close()


async def test_an_answer_streams_and_ends_with_its_usage(
    model: AnthropicModel, server: AnthropicServer
) -> None:
    *words, end = await collect(model.stream(asks("SLOW 50\none two", context=NOON)))
    assert words == [Text("echo: "), Text("one "), Text("two")]
    assert isinstance(end, Finished)
    assert (end.reason, end.usage.output) == ("stop", 3)
    assert server.requests[-1].headers["x-api-key"] == "sk-secret-of-the-test"


async def test_a_turn_with_thinking_tools_and_a_steering_message_is_accepted(
    model: AnthropicModel, server: AnthropicServer
) -> None:
    server.script(
        Reply(
            reasoning="hm hm", text="Let me look.", calls=(Call("a", "x", '{"n": 1}'), Call("b", "y", "{}"))
        )
    )
    events = await collect(model.stream(asks("go")))
    assert Reasoning("hm ") in events
    calls = [event for event in events if isinstance(event, ToolCall)]
    assert calls == [ToolCall("a", "x", '{"n": 1}'), ToolCall("b", "y", "{}")]
    end = events[-1]
    assert isinstance(end, Finished)
    assert end.reason == "tool_calls"

    asked = Line(
        role="assistant",
        content="Let me look.",
        reasoning="hm hm",
        extra=end.extra,
        tool_calls=[
            {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}} for call in calls
        ],
    )
    results = [Line(role="tool", tool_call_id=call.id, content="done") for call in calls]
    steered = [Line(role="user", content="also this"), Line(role="user", content="and that")]
    messages = [Line(role="user", content="go"), asked, *results, *steered]
    answer = await collect(model.stream(ModelRequest("", messages, context=NOON)))
    assert text_of(answer) == "echo: and that"
    thinking = server.requests[-1].body["messages"][1]["content"][0]
    assert thinking == {"type": "thinking", "thinking": "hm hm", "signature": "c2lnbmVk"}


async def test_the_system_prompt_and_the_last_two_user_messages_are_cached(
    model: AnthropicModel, server: AnthropicServer
) -> None:
    history = [
        line
        for number in range(3)
        for line in (Line(role="user", content=f"q{number}"), Line(role="assistant", content=f"a{number}"))
    ]
    tools = [ToolSpec("t", "A tool.", {"type": "object"})]
    await collect(model.stream(asks("now", *history, tools=tools, context=NOON)))
    body = server.requests[-1].body
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    assert body["tools"] == [{"name": "t", "description": "A tool.", "input_schema": {"type": "object"}}]
    marked = [
        block["text"]
        for message in body["messages"]
        for block in message["content"]
        if "cache_control" in block
    ]
    assert marked == ["q2", "now"]
    assert body["messages"][-1]["content"][-1]["text"] == NOON


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply(status=401, error="invalid x-api-key"), "auth"),
        (Reply(status=429, error="slow"), "rate_limited"),
        (Reply(status=529, error="Overloaded"), "overloaded"),
        (Reply(status=400, error="prompt is too long: 210000 tokens > 200000 maximum"), "context_overflow"),
        (
            Reply(status=413, error="Request exceeds the maximum size", code="request_too_large"),
            "context_overflow",
        ),
        (Reply(status=400, error="Your credit balance is too low to access the API."), "quota"),
        (Reply(status=400, error="max_tokens: 64000 > 8192"), "invalid"),
        (Reply(status=404, error="model: claude-test"), "invalid"),
        (Reply("half of", error="Overloaded"), "overloaded"),
        (Reply("half of", error="busy", code="rate_limit_error"), "rate_limited"),
        (Reply("half of", error="no", code="invalid_request_error"), "invalid"),
    ],
)
async def test_a_refusal_is_classified(
    model: AnthropicModel, server: AnthropicServer, reply: Reply, kind: str
) -> None:
    server.script(reply)
    failed = (await collect(model.stream(asks("hi"))))[-1]
    assert isinstance(failed, Failed)
    assert failed.kind == kind
    assert "sk-secret" not in failed.message


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("max_tokens", "length"), ("refusal", "refusal"), ("stop_sequence", "stop"), ("end_turn", "stop")],
)
async def test_stop_reasons_are_translated(
    model: AnthropicModel, server: AnthropicServer, finish: str, reason: str
) -> None:
    server.script(Reply("text", finish=finish))
    end = (await collect(model.stream(asks("hi"))))[-1]
    assert isinstance(end, Finished)
    assert end.reason == reason


async def test_a_call_that_the_output_limit_cut_off_is_left_out(
    model: AnthropicModel, server: AnthropicServer
) -> None:
    server.script(Reply(calls=(Call("a", "x", '{"n": 1'),), finish="max_tokens"))
    (end,) = await collect(model.stream(asks("hi")))
    assert isinstance(end, Finished)
    assert end.reason == "length"


async def test_a_stream_that_breaks_off_is_cut(model: AnthropicModel) -> None:
    end = (await collect(model.stream(asks("CUT\none two three"))))[-1]
    assert isinstance(end, Failed)
    assert end.kind == "cut"

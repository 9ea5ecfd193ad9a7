"""The OpenAI driver against a real server that speaks the protocol."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing

import msgspec
import pytest

from nanobot.messages import Line
from nanobot.model import Failed, Finished, ModelEvent, Reasoning, Text, ToolCall, ToolSpec
from nanobot.models.http import HttpClient
from nanobot.models.openai import OpenAIModel
from nanobot.models.turnstile import AT_ONCE
from tests.emulators.model_server import Call, Reply
from tests.emulators.openai import OpenAIServer
from tests.emulators.settings import Settings, asks, collect, text_of


@pytest.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as running:
        yield running


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    pool = HttpClient()
    yield pool
    await pool.close()


@pytest.fixture
def model(server: OpenAIServer, client: HttpClient) -> OpenAIModel:
    return OpenAIModel("openai/gpt-test", Settings(base_url=server.url), client, context_window=1000)


def failure_free(events: list[ModelEvent]) -> bool:
    return isinstance(events[-1], Finished)


def failure(events: list[ModelEvent]) -> Failed:
    assert isinstance(events[-1], Failed), events
    return events[-1]


async def test_an_answer_streams_word_by_word_and_ends_with_its_usage(model: OpenAIModel) -> None:
    *words, end = await collect(model.stream(asks("SLOW 50\none two")))
    assert words == [Text("echo: "), Text("one "), Text("two")]
    assert isinstance(end, Finished)
    assert end.reason == "stop"
    assert end.usage.output == 3
    assert end.usage.input > 0


async def test_a_tool_call_arrives_whole_and_its_result_is_understood(
    model: OpenAIModel, server: OpenAIServer
) -> None:
    spec = ToolSpec("read_file", "Read a text file.", {"type": "object", "properties": {}})
    request = asks('TOOL read_file {"path": "a b.txt"}', tools=[spec])
    call, end = await collect(model.stream(request))
    assert isinstance(call, ToolCall)
    assert (call.name, call.arguments) == ("read_file", '{"path": "a b.txt"}')
    assert isinstance(end, Finished)
    assert end.reason == "tool_calls"
    assert server.requests[-1].body["tools"][0]["function"]["name"] == "read_file"

    function = {"name": call.name, "arguments": call.arguments}
    asked = Line(role="assistant", content="", tool_calls=[{"id": call.id, "function": function}])
    done = Line(role="tool", tool_call_id=call.id, name=call.name, content="the text")
    again = asks("unused")
    again.messages[:] = [*request.messages, asked, done]  # type: ignore[index]
    assert text_of(await collect(model.stream(again))) == "result: the text"


async def test_reasoning_is_told_apart_from_text(model: OpenAIModel) -> None:
    events = await collect(model.stream(asks("REASON let me see\nhello")))
    assert [event.text for event in events if isinstance(event, Reasoning)] == ["let ", "me ", "see"]
    assert text_of(events) == "echo: hello"


async def test_words_that_came_together_are_one_event_and_keep_their_place(client: HttpClient) -> None:
    def chunk(**delta: str) -> bytes:
        return b"data: " + msgspec.json.encode({"choices": [{"index": 0, "delta": delta}]}) + b"\n\n"

    said = [
        chunk(reasoning_content="so"),
        chunk(content="a "),
        chunk(content="b"),
        chunk(reasoning_content="or"),
    ]
    end = b'data: {"choices": [{"index": 0, "delta": {"content": " c"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    body = b"".join(said) + end

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        model = OpenAIModel("openai/gpt-test", Settings(base_url=url), client, context_window=1000)
        events = await collect(model.stream(asks("hi")))
    assert events == [Reasoning("so"), Text("a b"), Reasoning("or"), Text(" c"), Finished("stop")]


async def test_the_key_travels_in_its_header_and_tools_and_model_in_the_body(
    model: OpenAIModel, server: OpenAIServer
) -> None:
    await collect(model.stream(asks("hi", max_output=77)))
    request = server.requests[-1]
    assert request.headers["Authorization"] == "Bearer sk-secret-of-the-test"
    assert request.body["model"] == "gpt-test"
    assert request.body["max_tokens"] == 77
    assert request.body["stream_options"] == {"include_usage": True}


async def test_extra_fields_are_merged_into_the_body_and_headers_added(
    server: OpenAIServer, client: HttpClient
) -> None:
    settings = Settings(
        base_url=server.url,
        headers={"X-Title": "nanobot"},
        extra={"temperature": 0.5, "max_completion_tokens": 9, "stream_options": None},
    )
    model = OpenAIModel("other/some/model", settings, client, context_window=1000)
    await collect(model.stream(asks("hi")))
    body = server.requests[-1].body
    assert body["model"] == "some/model"
    assert body["temperature"] == 0.5
    assert body["max_completion_tokens"] == 9
    assert "max_tokens" not in body
    assert "stream_options" not in body
    assert server.requests[-1].headers["X-Title"] == "nanobot"


@pytest.mark.parametrize(
    ("reply", "kind", "says"),
    [
        (Reply(status=401, error="Incorrect API key provided: sk-se*****est"), "auth", "[models.openai]"),
        (Reply(status=403, error="no"), "auth", "api_key"),
        (Reply(status=429, error="slow down", headers={"Retry-After": "7"}), "rate_limited", "slow down"),
        (
            Reply(status=429, error="You exceeded your current quota", code="insufficient_quota"),
            "quota",
            "credit",
        ),
        (Reply(status=402, error="pay"), "quota", "credit"),
        (Reply(status=400, error="too long", code="context_length_exceeded"), "context_overflow", "fit"),
        (
            Reply(
                status=400,
                error="the request exceeds the available context size",
                code="invalid_request_error",
            ),
            "context_overflow",
            "fit",
        ),
        (Reply(status=400, error="bad field"), "invalid", "bad field"),
        (
            Reply(status=404, error="The model does not exist", code="model_not_found"),
            "invalid",
            "'gpt-test'",
        ),
        (Reply(status=500, error="boom"), "overloaded", "500"),
        (Reply(status=529, error="busy"), "overloaded", "busy"),
        (Reply(status=307, headers={"Location": "/elsewhere"}), "invalid", "redirects"),
        (
            Reply("half an answer", error="The server is overloaded", code="overloaded"),
            "overloaded",
            "overloaded",
        ),
        (Reply("half", error="maximum context length is 10", code="x"), "context_overflow", "fit"),
    ],
)
async def test_a_refusal_is_classified_and_says_what_to_do(
    model: OpenAIModel, server: OpenAIServer, reply: Reply, kind: str, says: str
) -> None:
    server.script(reply)
    failed = failure(await collect(model.stream(asks("hi"))))
    assert failed.kind == kind
    assert says in failed.message
    assert "sk-se" not in failed.message
    if kind == "rate_limited":
        assert failed.retry_after == 7


async def test_a_missing_model_is_named_with_its_address(model: OpenAIModel, server: OpenAIServer) -> None:
    server.script(Reply(status=404, error="nope"))
    message = failure(await collect(model.stream(asks("hi")))).message
    assert server.url in message
    assert "gpt-test" in message


async def test_a_stream_that_breaks_off_is_cut(model: OpenAIModel) -> None:
    events = await collect(model.stream(asks("CUT\none two three four")))
    assert failure(events).kind == "cut"
    assert text_of(events).startswith("echo: ")


async def test_a_finish_reason_without_an_end_mark_is_a_good_end(
    model: OpenAIModel, server: OpenAIServer
) -> None:
    chunk = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n'
    server.script(Reply(frames=(chunk,)))
    assert await collect(model.stream(asks("hi"))) == [Text("hi"), Finished("stop")]


async def test_a_server_that_does_not_stream_is_understood(model: OpenAIModel, server: OpenAIServer) -> None:
    model.target = type(model.target)(model.name, model.target.url, extra={"stream": False})
    events = await collect(model.stream(asks("one two")))
    assert events[0] == Text("echo: one two")
    assert isinstance(events[-1], Finished)


async def test_nobody_at_the_address_is_unreachable(client: HttpClient) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    model = OpenAIModel("openai/gpt-test", Settings(base_url=url), client, context_window=1000)
    failed = failure(await collect(model.stream(asks("hi"))))
    assert failed.kind == "unreachable"
    assert url in failed.message
    assert "refused" in failed.message


@pytest.mark.parametrize("url", ["nonsense", "http://", "http://127.0.0.1:99999"])
async def test_an_unusable_address_fails_in_the_stream(client: HttpClient, url: str) -> None:
    model = OpenAIModel("openai/gpt-test", Settings(base_url=url), client, context_window=1000)
    assert failure(await collect(model.stream(asks("hi")))).kind in ("invalid", "unreachable")


async def test_a_key_that_no_header_can_hold_fails_in_the_stream_unseen(
    server: OpenAIServer, client: HttpClient
) -> None:
    settings = Settings(base_url=server.url, api_key="sk-one\nsk-two")
    model = OpenAIModel("openai/gpt-test", settings, client, context_window=1000)
    failed = failure(await collect(model.stream(asks("hi"))))
    assert failed.kind == "invalid"
    assert "api_key" in failed.message
    assert "sk-" not in failed.message


async def test_a_model_that_never_answers_times_out(server: OpenAIServer, client: HttpClient) -> None:
    settings = Settings(base_url=server.url, timeout=0.1)
    model = OpenAIModel("openai/gpt-test", settings, client, context_window=1000)
    failed = failure(await collect(model.stream(asks("HANG"))))
    assert failed.kind == "timeout"
    assert "0.1 s" in failed.message


async def test_a_gap_in_the_stream_times_out_but_a_slow_first_word_does_not(
    server: OpenAIServer, client: HttpClient
) -> None:
    settings = Settings(base_url=server.url, idle_timeout=0.1)
    model = OpenAIModel("openai/gpt-test", settings, client, context_window=1000)
    assert isinstance((await collect(model.stream(asks("DELAY 0.2\nhello"))))[-1], Finished)
    events = await collect(model.stream(asks("SLOW 2\none two")))
    assert events[0] == Text("echo: ")
    assert failure(events).kind == "timeout"


async def test_closing_the_stream_ends_the_request(model: OpenAIModel, server: OpenAIServer) -> None:
    async with aclosing(model.stream(asks("SLOW 100\nLONG 1000"))) as stream:
        assert isinstance(await anext(stream), Text)
        assert server.in_flight == 1
    async with asyncio.timeout(5):
        while server.in_flight:
            await asyncio.sleep(0)
    assert server.counters["finished"] == 0


async def test_calls_share_one_connection(
    model: OpenAIModel, server: OpenAIServer, client: HttpClient
) -> None:
    for number in range(5):
        assert isinstance((await collect(model.stream(asks(str(number)))))[-1], Finished)
    connector = client.session().connector
    assert connector is not None
    assert sum(len(connections) for connections in connector._conns.values()) == 1


async def test_calls_that_wait_for_their_answers_keep_nobody_from_asking(
    model: OpenAIModel, server: OpenAIServer
) -> None:
    silent = [asyncio.create_task(collect(model.stream(asks("HANG")))) for _ in range(2 * AT_ONCE)]
    async with asyncio.timeout(5):
        while len(server.requests) < len(silent):
            await asyncio.sleep(0)
        assert failure_free(await collect(model.stream(asks("one"))))
    for task in silent:
        task.cancel()
    await asyncio.gather(*silent, return_exceptions=True)


async def test_servers_that_do_not_read_hold_up_nobody_elses_call(
    model: OpenAIModel, client: HttpClient
) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        stuck = OpenAIModel("openai/deaf", Settings(base_url=url), client, context_window=1000)
        large = asks("x" * 16_000_000)  # more than the sockets take
        tasks = [asyncio.create_task(collect(stuck.stream(large))) for _ in range(AT_ONCE)]
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            assert failure_free(await collect(model.stream(asks("one"))))
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_kept_connection_that_the_server_closed_is_replaced(client: HttpClient) -> None:
    first = OpenAIServer()
    url = await first.start()
    model = OpenAIModel("openai/gpt-test", Settings(base_url=url), client, context_window=1000)
    await collect(model.stream(asks("one")))
    await first.stop()
    second = OpenAIServer()
    await second.start(int(url.split(":")[2].split("/")[0]))
    try:
        assert isinstance((await collect(model.stream(asks("two"))))[-1], Finished)
    finally:
        await second.stop()


async def test_calls_of_one_answer_are_told_apart(model: OpenAIModel, server: OpenAIServer) -> None:
    server.script(Reply(calls=(Call("a", "one", '{"x":1}'), Call("b", "two", "{}"))))
    events = await collect(model.stream(asks("hi")))
    assert events[:2] == [ToolCall("a", "one", '{"x":1}'), ToolCall("b", "two", "{}")]


async def test_a_server_that_hangs_up_after_each_answer_without_saying_so_is_no_failure(
    client: HttpClient,
) -> None:
    chunk = b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(chunk)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"]}")
        writer.write(head + chunk)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as hasty:
        url = f"http://127.0.0.1:{hasty.sockets[0].getsockname()[1]}"
        model = OpenAIModel("openai/gpt-test", Settings(base_url=url), client, context_window=1000)
        for _ in range(10):
            assert await collect(model.stream(asks("hi"))) == [Text("hi"), Finished("stop")]


@pytest.mark.parametrize("excepted", [False, True])
async def test_the_environments_proxy_is_used_but_not_for_the_hosts_it_excepts(
    server: OpenAIServer, client: HttpClient, monkeypatch: pytest.MonkeyPatch, excepted: bool
) -> None:
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1"))
    monkeypatch.setenv("no_proxy", "models.invalid" if excepted else "")
    behind = OpenAIModel(
        "openai/gpt-test", Settings(base_url="http://models.invalid/v1"), client, context_window=1000
    )
    events = await collect(behind.stream(asks("hello")))
    if excepted:
        assert failure(events).kind == "unreachable"
        assert not server.requests
    else:
        assert text_of(events) == "echo: hello"
        assert server.requests[-1].headers["Host"] == "models.invalid"

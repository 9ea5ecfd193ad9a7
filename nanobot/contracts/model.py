"""What every Model keeps, as tests. A model's own test module runs them:

pytest.register_assert_rewrite("nanobot.contracts")

class TestMyModel(ModelContract):
    @pytest.fixture
    def staged(self): ...   # a function: Behaviour -> a model that behaves so in its next calls

A behaviour that a model cannot show is skipped by calling pytest.skip in that function.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any, Literal, cast

import msgspec

from nanobot.messages import Line
from nanobot.model import Failed, Finished, Model, ModelEvent, ModelRequest, Text, ToolCall, ToolSpec

__all__ = ["ANSWER", "ModelContract", "Staged"]

Behaviour = Literal[
    "answers",  # with ANSWER, in several pieces
    "calls",  # the tool `look` with {"at": "the sky"}
    "refuses",  # before a word
    "cuts",  # after some words
    "hangs",  # without a word, for longer than its own time limit, which is about 0.2 s
    "talks",  # without end
]
Staged = Callable[[Behaviour], Model]

ANSWER = "The sky is blue today."
NOON = "<runtime_context>\nIt is noon.\n</runtime_context>"
PATIENCE = 10.0  # seconds; only a broken model takes them
LOOK = ToolSpec("look", "Look somewhere.", {"type": "object", "properties": {"at": {"type": "string"}}})


def question(text: str = "What colour is the sky?") -> ModelRequest:
    history = [Line(role="user", content="Hello"), Line(role="assistant", content="Hello to you.")]
    asked = Line(role="user", content=text, timestamp="2026-01-01T00:00:00.000+00:00", turn="t1")
    return ModelRequest("Be brief.", [*history, asked], tools=[LOOK], context=NOON)


async def events_of(model: Model, request: ModelRequest | None = None) -> Sequence[ModelEvent]:
    async with asyncio.timeout(PATIENCE):
        return [event async for event in model.stream(request or question())]


class ModelContract:
    async def test_a_model_says_what_it_is(self, staged: Staged) -> None:
        model = staged("answers")
        assert "/" in model.name
        assert model.context_window > 0
        assert model.small in (True, False)

    async def test_an_answer_comes_in_pieces_and_ends_once(self, staged: Staged) -> None:
        *pieces, end = await events_of(staged("answers"))
        assert isinstance(end, Finished)
        assert end.reason == "stop"
        texts = [piece.text for piece in pieces if isinstance(piece, Text)]
        assert len(texts) > 1
        assert "".join(texts) == ANSWER
        assert not [piece for piece in pieces if isinstance(piece, Finished | Failed)]

    async def test_a_tool_call_is_complete_and_named_in_the_reason(self, staged: Staged) -> None:
        events = await events_of(staged("calls"))
        (call,) = [event for event in events if isinstance(event, ToolCall)]
        assert call.id
        assert call.name == "look"
        assert msgspec.json.decode(call.arguments) == {"at": "the sky"}
        assert isinstance(events[-1], Finished)
        assert events[-1].reason == "tool_calls"

    async def test_a_refusal_is_an_event_not_an_exception(self, staged: Staged) -> None:
        (failed,) = await events_of(staged("refuses"))
        assert isinstance(failed, Failed)
        assert failed.message

    async def test_a_stream_that_breaks_off_is_told_as_cut_after_its_words(self, staged: Staged) -> None:
        *words, failed = await events_of(staged("cuts"))
        assert [word for word in words if isinstance(word, Text)]
        assert isinstance(failed, Failed)
        assert failed.kind == "cut"
        assert failed.retryable

    async def test_every_wait_is_bounded(self, staged: Staged) -> None:
        (failed,) = await events_of(staged("hangs"))
        assert isinstance(failed, Failed)
        assert failed.kind == "timeout"

    async def test_cancelling_ends_a_call_at_once(self, staged: Staged) -> None:
        model = staged("talks")
        talking = asyncio.Event()

        async def listen() -> None:
            async for _ in model.stream(question()):
                talking.set()

        task = asyncio.create_task(listen())
        async with asyncio.timeout(PATIENCE):
            await talking.wait()
            task.cancel()
            await asyncio.wait([task])
        assert task.cancelled()

    async def test_a_closed_stream_leaves_the_model_usable(self, staged: Staged) -> None:
        model = staged("talks")
        for _ in range(2):
            async with asyncio.timeout(PATIENCE), aclosing(cast("Any", model.stream(question()))) as stream:
                assert isinstance(await anext(stream), Text)

    async def test_calls_at_once_do_not_mix(self, staged: Staged) -> None:
        model = staged("answers")
        answers = await asyncio.gather(*(events_of(model) for _ in range(5)))
        for events in answers:
            assert "".join(event.text for event in events if isinstance(event, Text)) == ANSWER

    async def test_a_request_is_left_as_it_was(self, staged: Staged) -> None:
        request = question()
        before = [dict(line) for line in request.messages]
        await events_of(staged("answers"), request)
        assert [dict(line) for line in request.messages] == before

    async def test_closing_twice_is_harmless(self, staged: Staged) -> None:
        model = staged("answers")
        await events_of(model)
        await model.close()
        await model.close()

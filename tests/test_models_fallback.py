"""Retries and fallbacks, in given time."""

from contextlib import aclosing

import pytest

from nanobot.model import Failed, FailureKind, Finished, Restarted, Text
from nanobot.models.fallback import FallbackModel
from nanobot.models.scripted import Reply
from nanobot.testing import FakeClock, ScriptedModel
from tests.emulators.settings import asks, collect

BUSY = Failed("overloaded", "one/a is busy.")


def fails(kind: FailureKind, times: int = 100, name: str = "one/a") -> ScriptedModel:
    return ScriptedModel([[Failed(kind, f"{name}: {kind}.")]] * times, name=name)


async def test_a_passing_failure_is_tried_again_after_one_two_and_four_seconds() -> None:
    clock = FakeClock(auto=True)
    model = FallbackModel([ScriptedModel([[BUSY], [BUSY], [BUSY], "At last."])], clock)
    events = await collect(model.stream(asks("hi")))
    assert events[-2:] == [Text("At last."), Finished("stop")]
    assert [int(seconds) for seconds in clock.slept] == [1, 2, 4]
    assert all(seconds <= whole * 1.25 for seconds, whole in zip(clock.slept, (1, 2, 4), strict=True))
    assert all(isinstance(event, Restarted) for event in events[:3])


async def test_what_was_streamed_before_a_failure_is_declared_void() -> None:
    broken: Reply = [Text("The answer"), Failed("cut", "one/a broke off.")]
    model = FallbackModel([ScriptedModel([broken, "The answer is 4."])], FakeClock(auto=True))
    first, restarted, *rest = await collect(model.stream(asks("hi")))
    assert first == Text("The answer")
    assert isinstance(restarted, Restarted)
    assert restarted.reason == "one/a broke off. Trying again in 1 s."
    assert rest == [Text("The answer is 4."), Finished("stop")]


async def test_a_provider_that_asks_to_wait_is_waited_for() -> None:
    clock = FakeClock(auto=True)
    limited = Failed("rate_limited", "Slow down.", retry_after=20)
    await collect(FallbackModel([ScriptedModel([[limited], "Now."])], clock).stream(asks("hi")))
    assert 20 <= clock.slept[0] <= 25


async def test_a_provider_that_asks_for_too_long_is_left_for_the_next() -> None:
    clock = FakeClock(auto=True)
    limited = Failed("rate_limited", "Come back tomorrow.", retry_after=86_400)
    model = FallbackModel([ScriptedModel([[limited]]), ScriptedModel(["Me."], name="two/b")], clock)
    events = await collect(model.stream(asks("hi")))
    assert Text("Me.") in events
    assert not clock.slept


@pytest.mark.parametrize("kind", ["auth", "quota"])
async def test_a_bad_key_or_an_empty_account_goes_to_the_next_model_at_once(kind: FailureKind) -> None:
    clock = FakeClock(auto=True)
    first = fails(kind)
    model = FallbackModel([first, ScriptedModel(["Me."], name="two/b")], clock)
    restarted, text, end = await collect(model.stream(asks("hi")))
    assert restarted == Restarted(f"one/a: {kind}. Trying two/b instead.")
    assert (text, end) == (Text("Me."), Finished("stop"))
    assert len(first.requests) == 1
    assert not clock.slept


@pytest.mark.parametrize("kind", ["context_overflow", "invalid"])
async def test_what_another_model_would_not_mend_goes_to_nobody(kind: FailureKind) -> None:
    second = ScriptedModel(name="two/b")
    (failed,) = await collect(FallbackModel([fails(kind), second], FakeClock()).stream(asks("hi")))
    assert isinstance(failed, Failed)
    assert failed.kind == kind
    assert not second.requests


async def test_a_models_refusal_to_answer_stands() -> None:
    second = ScriptedModel(name="two/b")
    refusal = Finished("refusal")
    model = FallbackModel([ScriptedModel([[Text("No."), refusal]]), second], FakeClock())
    assert await collect(model.stream(asks("hi"))) == [Text("No."), refusal]
    assert not second.requests


async def test_a_model_that_failed_three_times_is_skipped_for_a_minute() -> None:
    clock = FakeClock(auto=True)
    first, second = fails("overloaded"), ScriptedModel(name="two/b")
    model = FallbackModel([first, second], clock)
    await collect(model.stream(asks("hi")))
    assert len(first.requests) == 3  # the third opened the breaker: no fourth try while another model is left
    events = await collect(model.stream(asks("hi")))
    assert len(first.requests) == 3
    assert not [event for event in events if isinstance(event, Restarted)]
    await clock.sleep(61)
    await collect(model.stream(asks("hi")))
    assert len(first.requests) == 4


async def test_an_only_model_is_never_skipped() -> None:
    first = fails("overloaded", times=6)
    model = FallbackModel([first], FakeClock(auto=True))
    assert isinstance((await collect(model.stream(asks("hi"))))[-1], Failed)
    assert len(first.requests) == 4
    assert (await collect(model.stream(asks("hi"))))[-1] == Finished("stop")


async def test_when_none_answers_every_reason_is_told() -> None:
    model = FallbackModel([fails("auth"), fails("overloaded", name="two/b")], FakeClock(auto=True))
    failed = (await collect(model.stream(asks("hi"))))[-1]
    assert failed == Failed("overloaded", "No model could answer. one/a: auth. two/b: overloaded.")


async def test_closing_the_stream_while_it_waits_ends_it() -> None:
    first = fails("overloaded")
    model = FallbackModel([first], FakeClock())
    async with aclosing(model.stream(asks("hi"))) as stream:
        assert isinstance(await anext(stream), Restarted)
    assert len(first.requests) == 1
    await model.close()
    assert first.closed

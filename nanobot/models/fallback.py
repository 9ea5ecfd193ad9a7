"""Retries, then the next model: a model made of models."""

import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack

from nanobot.clock import Clock
from nanobot.model import Failed, FailureKind, Finished, Model, ModelEvent, ModelRequest, Restarted

WAITS = (1.0, 2.0, 4.0)  # seconds before the second, third and fourth try of a model
JITTER = 0.25  # of a wait, at most, added so that many sessions do not come back at once
MAX_RETRY_AFTER = 60.0  # seconds; a provider that asks for more is not waited for
OPENS_AFTER = 3  # failures in a row that make a model be skipped
OPEN_FOR = 60.0  # seconds

# Another try or model would not help.
FINAL: frozenset[FailureKind] = frozenset({"context_overflow", "invalid"})


class FallbackModel:
    """Tries each model in order until one answers.

    A retryable failure is tried again on the same model (1, 2, 4 s, or what the provider asked for), then on the
    next; a bad key or an empty account goes to the next at once; an overflow, a wrong request and a refusal to answer
    go to nobody. A model that failed 3 times in a row is skipped for 60 s while another is left. Each new try is told
    as Restarted, since what was streamed before it is void. Name, window and size are the first model's.
    """

    def __init__(self, models: Sequence[Model], clock: Clock) -> None:
        if not models:
            raise ValueError("no models")
        self.models = tuple(models)
        self.name = models[0].name
        self.context_window = models[0].context_window
        self.small = models[0].small
        self._clock = clock
        self._failures = [0] * len(models)
        self._open_until = [0.0] * len(models)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        now = self._clock.monotonic()
        order = [index for index in range(len(self.models)) if self._open_until[index] <= now]
        order = order or list(range(len(self.models)))
        failures: list[Failed] = []
        for position, index in enumerate(order):
            last = position == len(order) - 1
            model = self.models[index]
            if failures:
                yield Restarted(f"{_short(failures[-1])} Trying {model.name} instead.")
            waits = [*WAITS]
            while True:
                failed: Failed | None = None
                async with AsyncExitStack() as stack:
                    stream = model.stream(request)
                    if isinstance(stream, AsyncGenerator):
                        stack.push_async_callback(stream.aclose)
                    async for event in stream:
                        if isinstance(event, Failed):
                            failed = event
                            break
                        yield event
                        if isinstance(event, Finished):
                            self._failures[index], self._open_until[index] = 0, 0.0
                            return
                if failed is None:
                    failed = Failed("cut", f"{model.name}: the stream ended before its end.")
                if failed.kind in FINAL:
                    yield failed
                    return
                self._count(index)
                opened = self._open_until[index] > self._clock.monotonic()
                wait = self._wait(failed, waits)
                if wait is None or (opened and not last):
                    failures.append(failed)
                    break
                yield Restarted(f"{_short(failed)} Trying again in {max(wait, 1):.0f} s.")
                await self._clock.sleep(wait)
        yield _summary(failures)

    async def close(self) -> None:
        for model in self.models:
            await model.close()

    def _count(self, index: int) -> None:
        self._failures[index] += 1
        if self._failures[index] >= OPENS_AFTER:
            self._open_until[index] = self._clock.monotonic() + OPEN_FOR

    def _wait(self, failed: Failed, waits: list[float]) -> float | None:
        """Seconds until the next try of the same model; None where there is none."""
        if not failed.retryable or not waits:
            return None
        wait = waits.pop(0)
        if failed.retry_after is not None:
            if failed.retry_after > MAX_RETRY_AFTER:
                return None
            wait = failed.retry_after
        return wait * (1 + JITTER * random.random())  # noqa: S311 - jitter is no secret


def _short(failed: Failed) -> str:
    text = failed.message.strip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _summary(failures: Sequence[Failed]) -> Failed:
    if len(failures) == 1:
        return failures[0]
    told = " ".join(dict.fromkeys(_short(failed) for failed in failures))
    return Failed(failures[-1].kind, f"No model could answer. {told}", failures[-1].retry_after)

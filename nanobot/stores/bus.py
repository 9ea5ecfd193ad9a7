"""LocalBus: live frames inside one process."""

from collections.abc import Callable
from functools import partial
from typing import Any

from loguru import logger

Callback = Callable[[Any], None]


class LocalBus:
    """Calls the subscribers of a topic in the order they came; a failing one is recorded and harms nobody else."""

    def __init__(self) -> None:
        self._topics: dict[str, tuple[Callback, ...]] = {}

    def publish(self, topic: str, frame: Any) -> None:
        # The tuple is replaced, never changed, so a callback may subscribe or leave while it runs.
        for callback in self._topics.get(topic, ()):
            try:
                callback(frame)
            except Exception:  # noqa: BLE001 - live output must never reach back into a turn
                logger.exception("a subscriber of {} failed", topic)

    def subscribe(self, topic: str, callback: Callback) -> Callable[[], None]:
        """Returns what ends the subscription; calling that twice is harmless."""
        entry = partial(callback)  # an identity of its own, so that one callback can subscribe twice
        self._topics[topic] = (*self._topics.get(topic, ()), entry)

        def leave() -> None:
            remaining = tuple(one for one in self._topics.get(topic, ()) if one is not entry)
            if remaining:
                self._topics[topic] = remaining
            else:
                self._topics.pop(topic, None)

        return leave

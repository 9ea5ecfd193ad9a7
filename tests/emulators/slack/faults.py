"""What goes wrong with a Web API call: errors, limits, replies that are lost before or after the effect."""

import asyncio
from typing import Any, Literal

import msgspec


class Refused(Exception):
    """The platform answers `{"ok": false, "error": …}`."""

    def __init__(self, error: str, **details: Any) -> None:
        super().__init__(error)
        self.error = error
        self.details = details


class Fault(msgspec.Struct):
    """One way a method fails, for the next `times` calls (on one channel, if named).

    `lost` closes the connection instead of answering: "before" the effect or "after" it. `retry_after` is a 429 in
    seconds; `status` an HTTP error without a JSON body; `error` Slack's own word; `hang` waits for `release`.
    """

    method: str  # or "*"
    times: int = 1
    channel: str = ""
    error: str = ""
    status: int = 0
    retry_after: float | None = None
    lost: Literal["", "before", "after"] = ""
    hang: bool = False
    release: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    hits: int = 0

    def takes(self, method: str, channel: str) -> bool:
        if self.hits >= self.times or self.method not in ("*", method):
            return False
        return not self.channel or self.channel == channel


class Faults:
    """The faults that are due, oldest first."""

    def __init__(self) -> None:
        self._due: list[Fault] = []

    def add(self, fault: Fault) -> Fault:
        self._due.append(fault)
        return fault

    def clear(self) -> None:
        self._due.clear()

    def take(self, method: str, channel: str) -> Fault | None:
        for fault in self._due:
            if fault.takes(method, channel):
                fault.hits += 1
                return fault
        return None

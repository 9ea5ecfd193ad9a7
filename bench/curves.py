"""The curves: how figures grow with chats, history, connections and sessions, and what a soak saw over time. Pure.

A point is a figure like any other, under the name `<curve>@<x>`: `growth.chats.rate@200`.
"""

from collections.abc import Mapping, Sequence

import msgspec

from bench.plot import Axis, Point, chart

Figures = Mapping[str, float | str]


class Curve(msgspec.Struct, frozen=True):
    """A chart: its points' name, the file in docs/img, its titles, and what it tells."""

    key: str
    title: str
    x: Axis
    y: Axis
    unit: str
    said: str = ""

    @property
    def file(self) -> str:
        return f"{self.key.replace('.', '-').replace('_', '-')}.svg"

    @property
    def part(self) -> str:
        return self.key.partition(".")[0]


CHATS = Axis("chats that talk at the same time", log=True)
HISTORY = Axis("messages in the chat", log=True)
SOCKETS = Axis("connections held open")
SESSIONS = Axis("sessions on the disk", log=True)
SECONDS = Axis("minutes")

CURVES: Sequence[Curve] = (
    Curve("growth.chats.rate", "Turns a second", CHATS, Axis("turns/s", log=True), "/s"),
    Curve("growth.chats.cpu_ms", "CPU of the gateway per turn", CHATS, Axis("ms", log=True), "ms"),
    Curve("growth.chats.first_ms", "Send to first word, median", CHATS, Axis("ms", log=True), "ms"),
    Curve("growth.history.cpu_ms", "CPU per turn in a long chat", HISTORY, Axis("ms", log=True), "ms"),
    Curve("growth.history.load_ms", "Loading a session file", HISTORY, Axis("ms", log=True), "ms"),
    Curve("growth.history.save_ms", "Saving one turn, durably", HISTORY, Axis("ms", log=True), "ms"),
    Curve(
        "growth.sockets.end_ms", "A turn beside idle connections, median", SOCKETS, Axis("ms", log=True), "ms"
    ),
    Curve("growth.sockets.kb", "Memory of an idle connection", SOCKETS, Axis("kB"), "kB"),
    Curve("growth.sessions.ready_s", "Start of the gateway to ready", SESSIONS, Axis("s"), "s"),
    Curve("growth.sessions.list_ms", "Listing all sessions", SESSIONS, Axis("ms", log=True), "ms"),
    Curve("growth.sessions.rss_mb", "Resident memory after the start", SESSIONS, Axis("MB"), "MB"),
    Curve("soak.rss", "Resident memory under steady load", SECONDS, Axis("MB", zero=False), "MB"),
)


def points(figures: Figures, key: str) -> list[Point]:
    """The points of a curve, by x."""
    found: list[Point] = []
    for name, value in figures.items():
        curve, at, x = name.partition("@")
        if at and curve == key and isinstance(value, int | float):
            found.append((float(x), float(value)))
    return sorted(found)


def lines(results: Mapping[str, Figures], curve: Curve) -> dict[str, list[Point]]:
    """A curve's points of each target that has some, the floor first."""
    order = [name for name in ("floor", "peer", "ours") if name in results]
    return {name: found for name in order if (found := points(results[name], curve.key))}


def draw(results: Mapping[str, Figures], curve: Curve) -> str | None:
    """The curve as SVG; None where nothing was measured."""
    found = lines(results, curve)
    return chart(curve.title, curve.x, curve.y, found) if found else None


def table(results: Mapping[str, Figures], curve: Curve) -> list[list[str]]:
    """The curve's numbers as rows: a head, then one row a target."""
    found = lines(results, curve)
    xs = sorted({x for one in found.values() for x, _ in one})
    head = [f"{curve.title}, {curve.unit}", *(f"{x:,.0f}" for x in xs)]
    rows = []
    for name, one in found.items():
        values = dict(one)
        rows.append([name, *(_number(values[x]) if x in values else "–" for x in xs)])
    return [head, *rows]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"

"""The table: what was measured, beside what is to be reached. Pure: figures in, text out."""

import math
from collections.abc import Mapping

import msgspec

Figures = Mapping[str, float | str]


class Row(msgspec.Struct, frozen=True):
    """A line of the table. `limit` is what ours should not be above, or not below where `more` is better."""

    key: str
    title: str
    unit: str
    limit: float | None = None
    more: bool = False


ROWS: Mapping[str, tuple[Row, ...]] = {
    "turns": (
        Row("one.cpu_ms", "1 chat: gateway CPU per turn", "ms", 4.0),
        Row("one.rate", "1 chat: turns a second", "/s", more=True),
        Row("one.first_p50_ms", "1 chat: first delta p50", "ms"),
        Row("one.end_p50_ms", "1 chat: turn_end p50", "ms"),
        Row("one.end_p99_ms", "1 chat: turn_end p99", "ms"),
        Row("one.accepted_p50_ms", "1 chat: accepted (durable) p50", "ms"),
        Row("many.rate", "100 chats: turns a second", "/s", 250.0, more=True),
        Row("many.first_p50_ms", "100 chats: first delta p50", "ms", 350.0),
        Row("many.end_p50_ms", "100 chats: turn_end p50", "ms"),
        Row("many.end_p99_ms", "100 chats: turn_end p99", "ms"),
        Row("many.cpu_ms", "100 chats: gateway CPU per turn", "ms"),
        Row("rss.ready", "RSS at ready", "MB"),
        Row("rss.idle", "RSS idle, 3 s later", "MB", 60.0),
        Row("rss.turns", "RSS after turns", "MB", 65.0),
        Row("rss.many", "RSS after 100 chats", "MB"),
    ),
    "memory": (Row("rss.sessions", "RSS with 200 sessions of 20 turns", "MB", 75.0),),
    "long": (
        Row("long.cpu_ms", "2,000-message history: CPU per turn", "ms", 15.0),
        Row("long.end_p50_ms", "2,000-message history: turn_end p50", "ms"),
        Row("long.request_kb", "2,000-message history: request body", "kB"),
        Row("long.load_cpu_ms", "2,000-message history: CPU of the first turn", "ms"),
    ),
    "idle": (
        Row("idle.end_p50_ms", "idle connections held: turn_end p50", "ms", 8.0),
        Row("idle.cpu_ms", "idle connections held: CPU per turn", "ms"),
        Row("idle.held", "idle connections held", "", more=True),
        Row("idle.kb", "memory of an idle connection", "kB"),
        Row("rss.idle_connections", "RSS with them", "MB"),
    ),
    "paced": (
        Row("paced1.end_p50_ms", "realistic model, 1 chat: turn_end p50", "ms"),
        Row("paced50.end_p50_ms", "realistic model, 50 chats: turn_end p50", "ms"),
        Row("paced50.rate", "realistic model, 50 chats: turns a second", "/s", more=True),
    ),
    "start": (
        Row("start.version_s", "version, wall (floor: python -c pass)", "s", 0.2),
        Row("start.ready_s", "gateway ready, wall", "s", 1.0),
        Row("start.cold_s", "gateway ready, the first start of the run", "s"),
    ),
    "micro": (
        Row("micro.save_ms", "save one turn at 2,000 messages, durable", "ms", 0.5),
        Row("micro.load_ms", "load 2,000 messages", "ms", 8.0),
        Row("micro.list_ms", "list 5,000 sessions", "ms", 60.0),
        Row("micro.list_new_process_ms", "list 5,000 sessions, a manager just made", "ms"),
    ),
    "kill": (
        Row("kill.accepted", "kill -9: accepted before", ""),
        Row("kill.unanswered", "kill -9: unanswered 30 s after the restart", "", 0.0),
        Row("kill.unanswered_on_disk", "kill -9: no answer on the disk either", "", 0.0),
        Row("kill.twice", "kill -9: answered twice", "", 0.0),
        Row("term.unanswered", "SIGTERM: unanswered", "", 0.0),
        Row("term.twice", "SIGTERM: answered twice", "", 0.0),
    ),
}


def render(results: Mapping[str, Figures], parts: list[str]) -> str:
    """A text table of the targets measured, by name; ratios are to the floor, faults follow as notes."""
    peer = "peer" in results
    heads = ["figure", "unit", "floor", "ours", "ours/floor", "target", ""]
    if peer:
        heads[3:3] = ["peer"]
        heads.insert(6, "peer/ours")
    lines: list[list[str]] = []
    for part in parts:
        for row in ROWS[part]:
            line = _line(row, results, peer=peer)
            if line:
                lines.append(line)
    widths = [max(len(line[column]) for line in [heads, *lines]) for column in range(len(heads))]
    shown = [_joined(line, widths) for line in [heads, ["-" * width for width in widths], *lines]]
    notes = [
        f"! {name}: {key.removesuffix('.faults')}: {value}"
        for name, figures in results.items()
        for key, value in figures.items()
        if key.endswith(".faults")
    ]
    return "\n".join([*shown, *([""] if notes else []), *notes])


def missed(results: Mapping[str, Figures]) -> list[str]:
    """The titles of the figures that ours has and that are beyond their limit."""
    ours = results.get("ours", {})
    return [
        row.title
        for rows in ROWS.values()
        for row in rows
        if row.limit is not None and row.key in ours and not _reached(row, float(ours[row.key]))
    ]


def _line(row: Row, results: Mapping[str, Figures], *, peer: bool) -> list[str]:
    floor, ours, other = (_value(results.get(name, {}), row.key) for name in ("floor", "ours", "peer"))
    if floor is None and ours is None and other is None:
        return []
    target = "" if row.limit is None else f"{'>=' if row.more else '<='} {_number(row.limit)}"
    verdict = "" if row.limit is None or ours is None else "ok" if _reached(row, ours) else "MISSED"
    cells = [row.title, row.unit, _number(floor), _number(ours), _ratio(ours, floor), target, verdict]
    if peer:
        cells[3:3] = [_number(other)]
        cells.insert(6, _ratio(other, ours))
    return cells


def _value(figures: Figures, key: str) -> float | None:
    value = figures.get(key)
    return value if isinstance(value, int | float) and not math.isnan(value) else None


def _reached(row: Row, value: float) -> bool:
    return row.limit is None or (value >= row.limit if row.more else value <= row.limit)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _ratio(over: float | None, under: float | None) -> str:
    return "-" if over is None or not under else f"{over / under:.2g}x"


def _joined(cells: list[str], widths: list[int]) -> str:
    shown = [cells[0].ljust(widths[0]), cells[1].ljust(widths[1])]
    shown += [cell.rjust(width) for cell, width in zip(cells[2:], widths[2:], strict=True)]
    return "  ".join(shown).rstrip()

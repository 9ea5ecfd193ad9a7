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
    "fanout": (
        Row("fanout.cpu_ms", "one chat watched by 200 connections: CPU per turn", "ms"),
        Row("fanout.end_p50_ms", "one chat watched by 200 connections: turn_end p50", "ms"),
        Row("fanout.frames", "one chat watched by 200 connections: frames per turn", ""),
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
    "channels": (
        Row("channels.ready_s", "with Slack and Telegram: gateway ready, wall", "s", 1.8),
        Row("channels.rss_idle", "with Slack and Telegram: RSS idle", "MB", 95.0),
        Row("channels.rss_turns", "with Slack and Telegram: RSS after turns", "MB", 95.0),
        Row("slack.cpu_ms", "Slack: gateway CPU per turn", "ms", 6.0),
        Row("slack.end_p50_ms", "Slack: answer seen p50", "ms"),
        Row("telegram.cpu_ms", "Telegram: gateway CPU per turn", "ms", 6.0),
        Row("telegram.end_p50_ms", "Telegram: answer seen p50", "ms"),
    ),
    "micro": (
        Row("micro.save_ms", "save one turn at 2,000 messages, durable", "ms", 0.5),
        Row("micro.load_ms", "load 2,000 messages", "ms", 8.0),
        Row("micro.list_ms", "list 5,000 sessions", "ms", 60.0),
        Row("micro.list_new_process_ms", "list 5,000 sessions, a manager just made", "ms"),
    ),
    "sealed": (
        Row("sealed.save_off_ms", "save one turn at 2,000 messages, plain state", "ms"),
        Row("sealed.save_on_ms", "save one turn at 2,000 messages, encrypted state", "ms"),
        Row("sealed.load_off_ms", "load 2,000 messages, plain state", "ms"),
        Row("sealed.load_on_ms", "load 2,000 messages, encrypted state", "ms"),
        Row("sealed.cpu_off_ms", "1 chat: gateway CPU per turn, plain state", "ms"),
        Row("sealed.cpu_on_ms", "1 chat: gateway CPU per turn, encrypted state", "ms"),
        Row("sealed.rss_off", "RSS after them, plain state", "MB"),
        Row("sealed.rss_on", "RSS after them, encrypted state", "MB"),
    ),
    "kill": (
        Row("kill.accepted", "kill -9: accepted before", ""),
        Row("kill.unanswered", "kill -9: unanswered 30 s after the restart", "", 0.0),
        Row("kill.unanswered_on_disk", "kill -9: no answer on the disk either", "", 0.0),
        Row("kill.twice", "kill -9: answered twice", "", 0.0),
        Row("term.unanswered", "SIGTERM: unanswered", "", 0.0),
        Row("term.twice", "SIGTERM: answered twice", "", 0.0),
    ),
    "install": (
        Row("install.packages", "installed with Slack and Telegram: packages", "", 55.0),
        Row("install.mb", "installed with Slack and Telegram: site-packages", "MB", 130.0),
    ),
    "growth": (),  # curves: bench/curves.py
    "soak": (
        Row("soak.turns", "turns of the soak", "", more=True),
        Row("soak.rss_half", "RSS after the first half", "MB"),
        Row("soak.rss_end", "RSS at the end", "MB"),
        Row("soak.grown", "RSS, last quarter over the one before", "MB", 2.0),
        Row("soak.slope", "slope of the second half", "MB an hour"),
        Row("soak.fds", "descriptors more in the last quarter", "", 5.0),
        Row("soak.threads", "threads more in the last quarter", "", 0.0),
        Row("soak.cpu_ms", "CPU per turn, a quarter of them with a tool", "ms"),
        Row("soak.end_p50_ms", "turn_end p50", "ms"),
        Row("soak.end_p99_ms", "turn_end p99", "ms"),
    ),
}


PARTS: Mapping[str, str] = {
    "turns": "One chat at a time and 100 at once on an instant model: CPU, rates, latencies, memory",
    "memory": "Resident memory with 200 sessions of 20 turns, 19 of them on the disk beforehand",
    "long": "CPU per turn in chats of 2,000 messages, all of which the model is sent",
    "idle": "Turns while 3,000 connections are open and silent",
    "fanout": "Turns of one chat that 200 connections watch; the floor has no second client in a chat",
    "paced": "A model of 500 ms to the first token, then 50 tokens a second",
    "start": "`nanobot version` and a gateway's start, from exec to ready",
    "channels": "Start, memory and CPU per turn with Slack and Telegram, on emulators",
    "sealed": "What encrypted state costs: saving, loading, CPU per turn, memory, each without and with it",
    "micro": "Session files without a gateway: save, load, list",
    "kill": "kill -9 and SIGTERM with 25 accepted messages: unanswered, answered twice",
    "install": "What pip installs in a new environment",
    "growth": "Curves: 1 to 200 chats, 10 to 10,000 messages, 0 to 5,000 connections, 10 to 10,000 sessions",
    "soak": "Steady load, 20 turns a second over 100 chats that come and go (`make soak MINUTES=30`)",
}
APART = frozenset({"soak"})  # not part of a plain run


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
        if row.limit is not None and row.key in ours and not reached(row, float(ours[row.key]))
    ]


def _line(row: Row, results: Mapping[str, Figures], *, peer: bool) -> list[str]:
    floor, ours, other = (value(results.get(name, {}), row.key) for name in ("floor", "ours", "peer"))
    if floor is None and ours is None and other is None:
        return []
    target = "" if row.limit is None else f"{'>=' if row.more else '<='} {number(row.limit)}"
    verdict = "" if row.limit is None or ours is None else "ok" if reached(row, ours) else "MISSED"
    cells = [row.title, row.unit, number(floor), number(ours), ratio(ours, floor), target, verdict]
    if peer:
        cells[3:3] = [number(other)]
        cells.insert(6, ratio(other, ours))
    return cells


def value(figures: Figures, key: str) -> float | None:
    """A figure that is a number; None where it was not measured."""
    value = figures.get(key)
    return value if isinstance(value, int | float) and not math.isnan(value) else None


def reached(row: Row, value: float) -> bool:
    """Whether a figure is within its limit."""
    return row.limit is None or (value >= row.limit if row.more else value <= row.limit)


def number(value: float | None) -> str:
    """A number as tables show it."""
    if value is None:
        return "-"
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def ratio(over: float | None, under: float | None) -> str:
    """One figure over another."""
    return "-" if over is None or not under else f"{over / under:.2g}x"


def _joined(cells: list[str], widths: list[int]) -> str:
    shown = [cells[0].ljust(widths[0]), cells[1].ljust(widths[1])]
    shown += [cell.rjust(width) for cell, width in zip(cells[2:], widths[2:], strict=True)]
    return "  ".join(shown).rstrip()

"""The run as a Markdown table, for the terminal and for docs/proof.md."""

import statistics
from datetime import date

from tests.crash.chaos.run import Report

COLUMNS = (
    "sent",
    "answered",
    "told",
    "steered",
    "lost",
    "twice",
    "windows",
    "disordered",
    "healed",
    "illegal",
    "wrong",
)


def table(report: Report) -> str:
    rows = [
        "| platform | accepted | " + " | ".join(COLUMNS) + " |",
        "|---|---|" + "---|" * len(COLUMNS),
    ]
    for name, verdict in report.verdicts.items():
        counts = " | ".join(f"{getattr(verdict, column):,}" for column in COLUMNS)
        rows.append(f"| {name} | {report.accepted[name]:,} | {counts} |")
    return "\n".join(rows)


def faults(report: Report) -> str:
    rows = ["| fault | times |", "|---|---|"]
    rows += [f"| {name} | {count} |" for name, count in sorted(report.faults.items())]
    return "\n".join(rows)


def figures(report: Report) -> str:
    chats = sum(1 for _ in {(say.platform, say.chat) for say in report.plan.says})
    before, after = report.descriptors
    rows = [
        "| figure | |",
        "|---|---|",
        f"| seed · length · messages to a busy session | {report.plan.seed} · {report.plan.seconds:.0f} s · `{report.queue}` |",
        f"| messages · chats · faults | {len(report.plan.says):,} · {chats:,} · {report.faults.total():,} |",
        f"| lives of the gateway (starts refused, as on a full disk) | {report.lives} ({report.refused_starts}) |",
        f"| to rest after the last message | {report.settle_seconds:.0f} s |",
        f"| start to ready, median · slowest | {_spread(report.start_seconds)} |",
        f"| SIGTERM to exit, median · slowest | {_spread(report.stop_seconds)} |",
        f"| tool effects, none twice | {report.effects:,} |",
        f"| resident memory, highest · at the end | {report.peak_rss:.0f} · {report.last_rss:.0f} MB |",
        f"| descriptors of the last life: at its start · after all clients had left | {before} · {after} |",
    ]
    return "\n".join(rows)


def whole(report: Report) -> str:
    parts = [table(report), figures(report), faults(report)]
    if report.left_out:
        parts.append("Left out: " + "; ".join(report.left_out) + ".")
    return "\n\n".join(parts)


def heading(report: Report, day: date, machine: str) -> str:
    return f"{day.isoformat()}, {machine}, seed {report.plan.seed}"


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} · {max(values):.2f} s" if values else "–"

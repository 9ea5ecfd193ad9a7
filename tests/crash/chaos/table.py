"""The run as a Markdown table, for the terminal and for docs/proof.md."""

import statistics
from datetime import date

from bench.report import KILLS
from tests.crash.chaos.run import Report

COLUMNS = (
    "sent",
    "answered",
    "told",
    "steered",
    "reports",
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


def proof(report: Report, day: date, machine: str, kills: str) -> str:
    """docs/proof.md, whole; `kills` is the bench's table of restarts."""
    again = report.plan.again(report.queue)
    verdict = "every promise held" if not report.failures else f"{len(report.failures)} promises were broken"
    failures = "".join(f"\n- {failure[:300]}" for failure in report.failures)
    return f"""# The proof

What was accepted is answered once, whatever dies when: measured, not claimed. Written by the run itself:

```
python -m tests.crash.chaos {again} --proof docs/proof.md
```

**{day.isoformat()}, {machine}, seed {report.plan.seed}: {verdict}.**{failures}

A real gateway process talks to emulated Slack and Telegram servers, to WebSocket clients and to a model server, while a
schedule made from the seed kills, stops and freezes it, fills its disk, moves its clock, and cuts, limits, hangs and takes
down what it depends on. In the last seventh of the time nothing fails any more, but what was broken is not started again.
Then everything is judged from outside: by what people saw, by the session files, the database, the audit trail and /proc.

{whole(report)}

- **answered**: once, by the model's answer to that very message, in the order of the chat. **told**: once, by a sentence that
  says why there is no answer (the model was down for longer than it is retried; or a turn was interrupted three times).
  **steered**: said while a turn ran, taken into it and answered with it. **reports**: results of sub-sessions, each heard
  once by the chat that delegated.
- **lost**, **twice**, **disordered**, **wrong** (not what was asked, or not what the history has), **illegal** (a history that a
  model would refuse): must be 0.
- **windows**: shown twice on Telegram, which has no way to ask whether a message was sent: a kill, or a lost answer, between
  the send and its mark. `unknown_send = "hold"` keeps such a reply among the dead letters instead.
- **healed**: histories in which an interruption left a call without its result; whoever reads them puts it there.

## Beside a peer

`make bench PARTS=kill`, with the peer where `PEER_PY` names a Python that has nanobot-ai 0.3.5. The peer's protocol
acknowledges nothing, so for it a message counts as accepted when the client's send returned.

{KILLS[0]}{kills}{KILLS[1]}
"""


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} · {max(values):.2f} s" if values else "–"

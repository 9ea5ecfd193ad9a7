"""The mailbox's decisions, without a disk: what runs next, what may join it, when to try again and when to give up."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta

from nanobot.messages import InboundKind
from nanobot.store import Row

MAX_ATTEMPTS = 3  # runs of one turn; the next claim of it ends as an error reply
FIRST_DELAY = 1.0  # seconds before the second try of a delivery
# Seconds: how late a reply may be once its platform works again, without having said when.
LONGEST_DELAY = 30.0


def rank(kind: InboundKind) -> int:
    """The order in which a session's messages are taken: people, then results, then work that goes on by itself."""
    return {"user": 0, "child_result": 1, "nudge": 1}.get(kind, 2)


def next_turn(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows of the session's next turn, leader first; empty where nothing waits.

    `rows` are the session's open rows, in any order, and nobody runs them now. A turn that was interrupted comes
    first, with everything that was steered into it; else the oldest pending row of the lowest rank, alone.
    """
    running = sorted((row for row in rows if row.status == "running"), key=_seq)
    if running:
        turn = running[0].turn
        members = [row for row in running if row.turn == turn]
        return tuple(sorted(members, key=lambda row: (row.id != turn, row.seq)))
    waiting = [row for row in rows if row.status == "pending"]
    if not waiting:
        return ()
    return (min(waiting, key=lambda row: (rank(row.inbound.kind), row.seq)),)


def may_steer(row: Row, *, only_nudges: bool = False) -> bool:
    """Whether a waiting row may join the turn that runs: what people, sub-sessions and watchers say."""
    if row.status != "pending":
        return False
    return row.inbound.kind == "nudge" or (not only_nudges and row.inbound.kind in {"user", "child_result"})


def exhausted(attempt: int, limit: int = MAX_ATTEMPTS) -> bool:
    """Whether a turn claimed with this attempt number has been interrupted too often to be run again."""
    return attempt > limit


def backoff(attempts: int, *, first: float = FIRST_DELAY, longest: float = LONGEST_DELAY) -> float:
    """Seconds to wait after this many failed attempts: doubling from `first` to `longest`.

    Half of it is random, so that what failed together is not tried again together.
    """
    full = min(longest, first * 2.0 ** min(max(attempts, 1) - 1, 32))
    return full * (0.5 + random.random() / 2)  # noqa: S311 - spreads load, guards nothing


def too_old(created_at: datetime, now: datetime, limit: timedelta) -> bool:
    """Whether a reply has waited so long that it belongs to the dead letters."""
    return now - created_at >= limit


def _seq(row: Row) -> int:
    return row.seq

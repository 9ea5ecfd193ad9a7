"""The judge: what was said, what people saw, what the histories and the database hold. Pure, but for reading files."""

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from nanobot import SessionManager, history
from nanobot.messages import Line
from nanobot.security import audit
from tests.crash.chaos.plan import MARK
from tests.crash.chaos.users import Chat, Platform


class Verdict(msgspec.Struct):
    """Counts of one platform, and what is wrong, one sentence each."""

    sent: int = 0
    answered: int = 0  # with the model's answer
    told: int = 0  # with a sentence that says why there is none
    steered: int = 0  # taken into the turn of an earlier one and answered with it
    reports: int = 0  # of sub-sessions: each is heard once, and answered
    lost: int = 0
    twice: int = 0
    windows: int = 0  # seen twice where the platform's documentation says so
    disordered: int = 0
    healed: int = 0  # histories with a call that was left without a result; readers put it there
    illegal: int = 0
    wrong: int = 0  # seen, but not what the history has
    failures: list[str] = []


def judge(platform: Platform, histories: Mapping[str, Sequence[Line]], *, steering: bool) -> Verdict:
    """Every message answered once and seen once, in order, from a legal history."""
    verdict = Verdict(failures=[])
    for chat in platform.chats():
        if chat.said:
            _chat(chat, histories.get(chat.key, ()), platform, verdict, steering=steering)
    return verdict


def _chat(chat: Chat, lines: Sequence[Line], platform: Platform, verdict: Verdict, *, steering: bool) -> None:
    said = [one.mark for one in chat.said]
    verdict.sent += len(said)

    def fail(kind: str, marks: Sequence[str] | str) -> int:
        verdict.failures.append(f"{chat.key}: {kind}: {marks}")
        return 1 if isinstance(marks, str) else len(marks)

    sound = history.legal(lines)
    if any(line not in lines for line in sound):  # a call that an interruption left without its result
        verdict.healed += 1
        sound = [line for line in sound if line in lines or line.get("content") != history.INTERRUPTED]
    if sound != list(lines):
        verdict.illegal += fail("the history is not legal", str([line.get("role") for line in lines][-12:]))
    # What the history heard, and how each turn ended.
    heard = [mark[0] for line in lines if is_said(line) and (mark := MARK.search(str(line["content"])))]
    counts = Counter(heard)
    if missing := [mark for mark in said if not counts[mark]]:
        verdict.lost += fail("never reached the history", missing)
    if doubled := [mark for mark, count in counts.items() if count > 1]:
        verdict.twice += fail("in the history more than once", doubled)
    if not missing and not doubled and chat.strict and heard != said:
        verdict.disordered += fail("heard in another order", f"{heard} instead of {said}")
    finals: list[Line] = []
    asked: list[str] = []
    reported: list[str] = []
    awaited: set[str] = set()
    last = ""
    for line in lines:
        mark = MARK.search(str(line.get("content")))
        if mark and is_said(line):
            asked.append(last := mark[0])
        elif mark and line.get("injected") == "child_result":
            reported.append(last := mark[0])
        elif mark and line.get("name") == "delegate" and '"success": true' in str(line["content"]):
            awaited.add(mark[0])
        elif line.get("role") == "assistant" and "latency_ms" in line:
            finals.append(line)
            if asked or not reported:
                _final(line, asked, last, verdict, fail, steering=steering)
            elif line.get("injected") != "failed" and last not in str(line.get("content")):
                verdict.wrong += fail(f"answered to the report of {last}", str(line.get("content")))
            verdict.reports += len(reported)
            asked, reported = [], []
    if asked:
        verdict.lost += fail("never answered", asked)
    _reports(chat, lines, awaited, verdict, fail)
    # What people saw of it.
    shown = [one.id for one in chat.seen if one.id]
    if again := [one for one, count in Counter(shown).items() if count > 1]:
        verdict.twice += fail("seen more than once", again)
    _compare(chat, finals, platform, verdict, fail)


def _reports(chat: Chat, lines: Sequence[Line], awaited: set[str], verdict: Verdict, fail: Any) -> None:
    """What sub-sessions reported by themselves: once each, and each that was begun for that."""
    found = [MARK.search(str(line["content"])) for line in lines if line.get("injected") == "child_result"]
    counts = Counter(mark[0] for mark in found if mark)
    if doubled := [mark for mark, count in counts.items() if count > 1]:
        verdict.twice += fail("reported more than once", doubled)
    begun = [one.mark for one in chat.said if one.kind == "child" and one.mark in awaited]
    if missing := [mark for mark in begun if not counts[mark]]:
        verdict.lost += fail("never reported", missing)


def _final(line: Line, asked: list[str], last: str, verdict: Verdict, fail: Any, *, steering: bool) -> None:
    """`last` is what was heard last in the turn, a message or a sub-session's report: the answer is to that."""
    text = str(line.get("content"))
    if not asked:
        verdict.twice += fail("a second answer", text)
        return
    if len(asked) > 1 and not steering:
        verdict.wrong += fail("one answer to several messages", asked)
    verdict.steered += len(asked) - 1
    if line.get("injected") == "failed":
        verdict.told += 1
        if "unforeseen" in text:
            verdict.wrong += fail("a fault of our own", text)
    elif last in text:
        verdict.answered += 1
    else:
        verdict.wrong += fail(f"answered to {last}", text)


def _compare(chat: Chat, finals: Sequence[Line], platform: Platform, verdict: Verdict, fail: Any) -> None:
    """What was seen must be the finals, in their order. Where a platform shows ids, by them; else by the texts."""
    wanted = [(f"{line.get('turn')}.0", str(line.get("content"))) for line in finals]
    seen = list(chat.seen)
    position = 0
    for message_id, text in wanted:
        found = next(
            (
                n
                for n in range(position, len(seen))
                if _is(seen[n].id, seen[n].text, message_id, text, platform)
            ),
            None,
        )
        if found is None:
            earlier = any(_is(one.id, one.text, message_id, text, platform) for one in seen[:position])
            if earlier:
                verdict.disordered += fail("seen out of order", text)
            else:
                verdict.lost += fail("answered, but never seen", f"{text} ({message_id})")
            continue
        for extra in seen[position:found]:
            _extra(extra.text, text, platform, verdict, fail)
        position = found + 1
    for extra in seen[position:]:
        _extra(extra.text, wanted[-1][1] if wanted else "", platform, verdict, fail)


def _extra(text: str, neighbour: str, platform: Platform, verdict: Verdict, fail: Any) -> None:
    if platform.windows:
        verdict.windows += 1
    else:
        verdict.twice += fail("seen, but not (or not here) in the history", f"{text!r} before {neighbour!r}")


def _is(seen_id: str, seen_text: str, id: str, text: str, platform: Platform) -> bool:
    if seen_id and seen_id != id:
        return False
    return platform.same(seen_text, text)


def is_said(line: Line) -> bool:
    return line.get("role") == "user" and line.get("injected") is None


def unsaid(line: Line) -> bool:
    """Whether it is the empty end of a turn that was stopped before it said anything; models never see it."""
    return line.get("injected") == "stopped" and not line.get("content")


def effects(path: Path, histories: Mapping[str, Sequence[Line]]) -> tuple[int, list[str]]:
    """How many tool effects there are; none happened twice, and what the history calls done did happen."""
    lines = path.read_text(errors="replace").split() if path.exists() else []
    counts = Counter(line for line in lines if MARK.fullmatch(line))
    failures = [f"the effect of {mark} happened {count} times" for mark, count in counts.items() if count > 1]
    for key, history_lines in histories.items():
        for line in history_lines:
            text = str(line.get("content"))
            mark = MARK.search(text)
            done = line.get("role") == "tool" and "[exit code 0]" in text
            if done and mark and not counts[mark[0]]:
                failures.append(f"{key}: {mark[0]} is done by the history, but its effect is missing")
    return sum(counts.values()), failures


def others(manager: SessionManager, known: Mapping[str, Sequence[Line]]) -> list[str]:
    """The histories of sub-sessions: legal, but for a call whose result an interruption kept back."""
    failures = []
    for row in manager.list_sessions():
        file = manager.read_session_file(str(row["key"])) if row["key"] not in known else None
        lines = [line for line in (file["messages"] if file else ()) if not unsaid(line)]
        sound = [
            one for one in history.legal(lines) if one in lines or one.get("content") != history.INTERRUPTED
        ]
        if sound != lines:
            failures.append(
                f"{row['key']}: the history is not legal: {[line.get('role') for line in lines][-12:]}"
            )
    return failures


def log(path: Path) -> list[str]:
    """Exceptions that nobody foresaw; those with a name of our own were."""
    found: Counter[str] = Counter()
    for line in path.read_text(errors="replace").splitlines():
        words = line.rpartition("\\n")[2]
        if "\\nTraceback" in line and not words.startswith("nanobot.errors."):
            found[words[:200]] += 1
    return [f"{count} times in the log: {words}" for words, count in found.items()]


def state(folder: Path) -> list[str]:
    """What the stopped gateway left: an empty mailbox, no lease, a sound database and an unbroken audit trail."""
    failures = []
    with closing(sqlite3.connect(f"{(folder / 'gateway.db').as_uri()}?mode=ro", uri=True)) as db:
        [sound] = db.execute("PRAGMA integrity_check(1)").fetchone()
        if sound != "ok":
            failures.append(f"gateway.db: {sound}")
        for table, done in (("inbox", "('done', 'dead')"), ("outbox", "('delivered')")):
            for status, count in db.execute(
                f"SELECT status, count(*) FROM {table} WHERE status NOT IN {done} GROUP BY status"
            ):
                failures.append(f"gateway.db: {count} rows of {table} are {status}")
        [leases] = db.execute("SELECT count(*) FROM lease").fetchone()
        if leases:
            failures.append(f"gateway.db: {leases} leases are held by nobody")
    trail = audit.verify(folder / "audit.jsonl")
    if not trail.ok:
        failures.append(f"audit.jsonl, line {trail.line}: {trail.reason}")
    return failures

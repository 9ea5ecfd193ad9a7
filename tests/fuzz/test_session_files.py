"""Ten thousand damaged session files: each is read, its whole lines are kept, and a model accepts what comes out."""

import json
import os
import random
from pathlib import Path

from nanobot import SessionManager, history
from nanobot.messages import Line
from nanobot.stores.sessions import jsonl
from tests.fuzz.mutate import mutated

MUTATIONS = int(os.environ.get("NANOBOT_FUZZ", "10000"))
KEY = "telegram:1"


def session_file() -> bytes:
    rows: list[dict[str, object]] = [
        {
            "_type": "metadata",
            "key": KEY,
            "created_at": "2026-01-01T00:00:00+00:00",
            "metadata": {},
            "last_consolidated": 0,
        }
    ]
    for number in range(6):
        turn = f"t{number}"
        call = {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": "exec", "arguments": '{"command": "ls"}'},
        }
        rows += [
            {"role": "user", "content": f"question {number} äöü 猫", "turn": turn},
            {"role": "assistant", "content": "", "tool_calls": [call], "turn": turn},
            {"role": "tool", "content": "a\nb", "tool_call_id": f"c{number}", "name": "exec", "turn": turn},
            {"role": "assistant", "content": f"answer {number}", "turn": turn, "latency_ms": 5},
        ]
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def test_no_damage_keeps_a_file_from_being_read_or_makes_a_history_that_a_model_refuses() -> None:
    whole = session_file()
    chance = random.Random(1)
    for number in range(MUTATIONS):
        data = mutated(whole, chance)
        parsed = jsonl.parse(data)
        lines = history.legal(parsed.messages)
        assert history.legal(lines) == lines, f"mutation {number}: legal() is not stable: {data!r}"
        assert_accepted(lines, number)
        users = [line for line in parsed.messages if line["role"] == "user"]
        assert [line for line in lines if line["role"] == "user"] == users, (
            f"mutation {number}: a question is lost"
        )
        last = jsonl.consolidated(parsed.metadata, len(parsed.messages))
        assert 0 <= last <= len(parsed.messages)
        history.window(parsed.messages, last, 7, 500)


def test_every_line_that_damage_left_alone_is_kept() -> None:
    whole = session_file()
    rows = whole.split(b"\n")[1:-1]
    chance = random.Random(2)
    for number in range(MUTATIONS // 4):
        data = mutated(whole, chance)
        untouched = [row for row in rows if row in data.split(b"\n")]
        parsed = jsonl.parse(data)
        kept = [part.raw.strip() for part in jsonl.scan(data).parts or []]
        assert all(row in kept for row in untouched), f"mutation {number}: {data!r}"
        assert len(parsed.messages) >= len(set(untouched)), f"mutation {number}: {data!r}"


def test_a_damaged_file_is_mended_once_and_then_stays_as_it_is(tmp_path: Path) -> None:
    whole = session_file()
    chance = random.Random(3)
    for number in range(150):
        folder = tmp_path / str(number)
        manager = SessionManager(directory=folder)
        folder.mkdir(exist_ok=True)
        path = folder / f"{manager.safe_key(KEY)}.jsonl"
        path.write_bytes(mutated(whole, chance))
        messages = list(manager.get_or_create(KEY).messages)
        mended = path.read_bytes()
        again = SessionManager(directory=folder).get_or_create(KEY)
        assert again.messages == messages, f"mutation {number}"
        assert path.read_bytes() == mended, f"mutation {number}: mended twice"
        again.add_message("user", "still there?")
        manager = SessionManager(directory=folder)
        SessionManager(directory=folder).save(again)
        assert manager.get_or_create(KEY).messages[-1]["content"] == "still there?"


def assert_accepted(lines: list[Line], number: int) -> None:
    """What every provider demands: results directly after their calls, each once, none missing."""
    waiting: list[str] = []
    for line in lines:
        if line["role"] == "tool":
            assert line["tool_call_id"] in waiting, f"mutation {number}: a result without a call"
            waiting.remove(line["tool_call_id"])
            continue
        assert not waiting, f"mutation {number}: a call without its result"
        waiting = [call["id"] for call in line.get("tool_calls") or ()] if line["role"] == "assistant" else []
    assert not waiting, f"mutation {number}: a call without its result at the end"

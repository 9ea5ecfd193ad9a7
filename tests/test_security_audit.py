import hashlib
import json
import stat
import threading
from pathlib import Path

import pytest

from nanobot.security.audit import Audit, Report, verify


@pytest.fixture
def trail(tmp_path: Path) -> Path:
    path = tmp_path / "audit.jsonl"
    audit = Audit(path)
    for number in range(5):
        audit.append("tool", tool="exec", number=number)
    audit.close()
    return path


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def test_an_untouched_trail_is_whole_private_and_numbered(trail: Path) -> None:
    assert verify(trail) == Report(ok=True, entries=5)
    assert stat.S_IMODE(trail.stat().st_mode) == 0o600
    entries = [json.loads(line) for line in lines(trail)]
    assert [entry["seq"] for entry in entries] == [1, 2, 3, 4, 5]
    assert entries[3]["prev"] == entries[2]["hash"]
    assert entries[0]["kind"] == "tool"


def test_an_edit_is_found_at_its_line(trail: Path) -> None:
    trail.write_bytes(trail.read_bytes().replace(b'"number":2', b'"number":9'))
    report = verify(trail)
    assert (report.ok, report.line) == (False, 3)
    assert "changed" in report.reason


def test_an_edit_with_its_hash_made_anew_is_found_at_the_next_line(trail: Path) -> None:
    forged = lines(trail)[:2]
    entry = json.loads(lines(trail)[2])
    entry["number"] = 9
    body = json.dumps({k: v for k, v in entry.items() if k != "hash"}, separators=(",", ":"))
    digest = hashlib.sha256(body.encode()).hexdigest()
    forged.append(f'{body[:-1]},"hash":"{digest}"}}\n'.encode())
    trail.write_bytes(b"".join([*forged, *lines(trail)[3:]]))
    report = verify(trail)
    assert (report.ok, report.line) == (False, 4)


@pytest.mark.parametrize(
    ("order", "broken"),
    [([0, 1, 3, 4], 3), ([1, 2, 3, 4], 1), ([0, 2, 1, 3, 4], 2), ([0, 1, 1, 2, 3, 4], 3), ([0, 1, 2, 3], 5)],
)
def test_lines_removed_reordered_or_repeated_break_the_chain(
    trail: Path, order: list[int], broken: int
) -> None:
    whole = lines(trail)
    trail.write_bytes(b"".join(whole[at] for at in order))
    report = verify(trail)
    assert (report.ok, report.line) == (False, broken)


def test_a_trail_that_was_cut_removed_or_written_anew_is_missed(trail: Path) -> None:
    whole = trail.read_bytes()
    trail.write_bytes(b"".join(lines(trail)[:2])[:-30])
    assert "4 entries are missing" in verify(trail).reason
    trail.unlink()
    assert "5 entries are missing" in verify(trail).reason
    other = trail.with_name("other.jsonl")
    audit = Audit(other)
    for number in range(5):
        audit.append("tool", tool="exec", number=number + 1)
    audit.close()
    trail.write_bytes(other.read_bytes())
    assert (verify(trail).line, verify(trail).ok) == (5, False)
    trail.write_bytes(whole)
    assert verify(trail).ok


def test_what_follows_a_cut_says_that_there_was_one(trail: Path) -> None:
    trail.write_bytes(b"".join(lines(trail)[:3]))
    Audit(trail).append("start")
    report = verify(trail)
    assert (report.ok, report.line) == (False, 4)
    assert report.reason == "says that 2 entries before it were cut off"


def test_added_space_and_foreign_lines_are_found(trail: Path) -> None:
    whole = lines(trail)
    trail.write_bytes(b"".join([whole[0], b" " + whole[1], *whole[2:]]))
    assert verify(trail).line == 2
    trail.write_bytes(b"".join([whole[0], b"\n", *whole[1:]]))
    assert verify(trail).line == 2


@pytest.mark.parametrize("cut", [1, 20, 120])
def test_a_torn_tail_is_told_repaired_marked_and_followed(trail: Path, cut: int) -> None:
    trail.write_bytes(trail.read_bytes()[:-cut])
    assert verify(trail) == Report(ok=True, entries=4, torn=True, reason="the last line is incomplete")
    Audit(trail).append("start")
    assert verify(trail) == Report(ok=True, entries=6)
    assert [json.loads(line)["kind"] for line in lines(trail)][-2:] == ["audit_repaired", "start"]


def test_an_append_after_damage_leaves_the_damage_where_it_is(trail: Path) -> None:
    whole = lines(trail)
    trail.write_bytes(b"".join([*whole[:4], b"garbage\n"]))
    Audit(trail).append("start")
    assert verify(trail).line == 5


def test_two_processes_worth_of_writers_make_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    writers = [Audit(path) for _ in range(3)]  # each with a descriptor of its own, as another process has

    def write(audit: Audit) -> None:
        for number in range(50):
            audit.append("tool", number=number)

    threads = [threading.Thread(target=write, args=(audit,)) for audit in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verify(path) == Report(ok=True, entries=150)


def test_details_cannot_stand_in_for_the_trails_own_fields(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    Audit(path).append("tool", seq=77, prev="x", at="never")
    entry = json.loads(path.read_text())
    assert (entry["seq"], entry["prev"]) == (1, "0" * 64)
    assert entry["at"] != "never"
    assert verify(path).ok


def test_no_trail_is_no_fault(tmp_path: Path) -> None:
    assert verify(tmp_path / "none.jsonl").ok

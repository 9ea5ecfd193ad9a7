"""Files that came in: whole, private, and gone when no accepted message named them."""

import os
import stat
from datetime import timedelta
from pathlib import Path

import pytest

from nanobot.messages import Attachment, Inbound
from nanobot.stores.media import DAY, MediaFiles, sweep
from nanobot.stores.memory import MemoryStore
from nanobot.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def files(tmp_path: Path) -> MediaFiles:
    return MediaFiles(tmp_path)


def kept(files: MediaFiles, clock: FakeClock, name: str, *, days: float, keep: bool = False) -> Path:
    path = files.folder / "slack" / name
    files.write(path, b"content", keep=keep)
    files.write(path.with_name(f"{name}.json"), b"{}")
    moment = clock.now().timestamp() - days * DAY
    os.utime(path, (moment, moment))
    return path


async def test_what_no_message_named_goes_after_two_days_and_nothing_else_does(
    files: MediaFiles, clock: FakeClock
) -> None:
    store = MemoryStore(clock)
    named = kept(files, clock, "named", days=3)
    await store.inbox.accept(
        Inbound("slack", "1", "C1", "look", media=(Attachment(str(named), "n", "text/plain", 7),))
    )
    young = kept(files, clock, "young", days=1)
    shown = kept(files, clock, "shown", days=3, keep=True)  # a copy that a reply shows
    ancient = kept(files, clock, "ancient", days=40)  # older than what the inbox remembers: it may be named
    refused = kept(files, clock, "refused", days=3)
    await sweep(files, store.inbox, clock)
    left = {path.name for path in (files.folder / "slack").iterdir()}
    assert left == {
        name for path in (named, young, shown, ancient) for name in (path.name, f"{path.name}.json")
    }
    assert not refused.exists()
    await clock.advance(timedelta(days=2).total_seconds())
    await sweep(files, store.inbox, clock)
    assert not young.exists()
    assert named.exists()


def test_a_file_is_private_whole_and_leaves_no_half_behind(files: MediaFiles) -> None:
    path = files.folder / "slack" / "a"
    files.write(path, b"one")
    files.write(path, b"two", keep=True)
    assert files.read(path) == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o400
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    with pytest.raises(OSError, match="too long"):
        files.write(path.with_name("x" * 300), b"never")
    assert [one.name for one in path.parent.iterdir()] == ["a"]


def test_a_file_of_the_workspace_is_read_as_it_is(files: MediaFiles, tmp_path: Path) -> None:
    (tmp_path.parent / "report.txt").write_bytes(b"report")
    assert files.read(tmp_path.parent / "report.txt") == b"report"

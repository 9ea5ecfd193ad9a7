"""What an earlier gateway's sub-sessions left behind: processes that nobody reads any more, files that grew old."""

import asyncio
import shutil
import signal
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from loguru import logger

from nanobot.child import Child
from nanobot.child_maker import OWN
from nanobot.child_records import ChildRecords
from nanobot.errors import StoreError
from nanobot.security import tree

KEEP_DAYS = 7  # the files of ended turns; the histories stay


async def kill_orphans(children: Iterable[Child]) -> None:
    """End what ended sub-sessions still run, known by process id, start time and boot id, and by their marks.

    The process table is looked at once for all of them: there may be thousands.
    """
    boot = tree.boot_id()
    ran = [child for child in children if child.ended and child.process and child.process.boot == boot]
    for child in await asyncio.to_thread(_running, ran):
        assert child.process
        logger.warning("ending what sub-session {} left running", child.short)
        await tree.kill_tree(tree.Identity(child.process.pid, child.process.started), child.process.marker)


def _running(children: Sequence[Child]) -> list[Child]:
    left = tree.marks()
    return [
        child
        for child in children
        if (process := child.process)
        and (process.marker in left or tree.alive(tree.Identity(process.pid, process.started)))
    ]


async def kill_abandoned() -> None:
    """End the commands of a gateway that was killed: nobody will read what they print."""
    for identity in await asyncio.to_thread(tree.abandoned):
        logger.warning("ending process {}, which a gateway that is gone left running", identity.pid)
        tree.send(identity, signal.SIGKILL)


async def seal_leftovers(records: ChildRecords) -> None:
    """Seal what the last turns of ended sub-sessions wrote, where the gateway was gone before it could."""
    await asyncio.to_thread(
        _seal, records, [one for one in records.all() if one.ended and one.executor != OWN]
    )


def _seal(records: ChildRecords, children: Sequence[Child]) -> None:
    for child in children:
        try:
            records.files.seal_turn(records.folder(child), child.turn)
        except (OSError, StoreError) as error:
            logger.warning("sub-session {}: what it wrote stays plain: {}", child.short, error)


async def sweep(records: ChildRecords, now: datetime) -> None:
    before = now - timedelta(days=KEEP_DAYS)
    old = [records.folder(child) for child in records.all() if child.ended and child.updated_at < before]
    await asyncio.to_thread(_remove, old)


def _remove(folders: Sequence[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)

"""What an earlier gateway's sub-sessions left behind: processes that nobody reads any more, files that grew old."""

import asyncio
import shutil
import signal
from datetime import datetime, timedelta

from loguru import logger

from nanobot.child import Child
from nanobot.child_maker import OWN
from nanobot.child_records import ChildRecords
from nanobot.errors import StoreError
from nanobot.security import tree

KEEP_DAYS = 7  # the files of ended turns; the histories stay


async def kill_orphans(child: Child) -> None:
    """End what an ended sub-session still runs, known by process id, start time and boot id, and by its mark."""
    record = child.process
    if record is None or record.boot != tree.boot_id():
        return
    root = tree.Identity(record.pid, record.started)
    left = await asyncio.to_thread(tree.marked, record.marker)
    if left or tree.alive(root):
        logger.warning("ending what sub-session {} left running", child.short)
        await tree.kill_tree(root, record.marker)


async def kill_abandoned() -> None:
    """End the commands of a gateway that was killed: nobody will read what they print."""
    for identity in await asyncio.to_thread(tree.abandoned):
        logger.warning("ending process {}, which a gateway that is gone left running", identity.pid)
        tree.send(identity, signal.SIGKILL)


async def seal_leftovers(records: ChildRecords) -> None:
    """Seal what the last turns of ended sub-sessions wrote, where the gateway was gone before it could."""
    for child in records.all():
        if child.ended and child.executor != OWN:
            try:
                await asyncio.to_thread(records.files.seal_turn, records.folder(child), child.turn)
            except (OSError, StoreError) as error:
                logger.warning("sub-session {}: what it wrote stays plain: {}", child.short, error)


async def sweep(records: ChildRecords, now: datetime) -> None:
    before = now - timedelta(days=KEEP_DAYS)
    for child in records.all():
        if child.ended and child.updated_at < before:
            await asyncio.to_thread(shutil.rmtree, records.folder(child), ignore_errors=True)

"""Opening the database for a command; beside a running gateway too, which polls it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from nanobot.errors import UsageError
from nanobot.workspace import state_dir

if TYPE_CHECKING:
    from nanobot.store import Store

T = TypeVar("T")
SECONDS = 30.0  # for the whole command; the database is local


def with_store(workspace: Path, work: Callable[["Store"], Awaitable[T]], nothing: T | None = None) -> T:
    """Do something with the workspace's store.

    Where no gateway has run in it yet, `nothing` is what there is; without that, or without the workspace, UsageError.
    """
    directory = state_dir(workspace)
    if not (directory / "gateway.db").is_file():
        if nothing is not None and workspace.is_dir():
            return nothing
        raise UsageError(
            f"No gateway has run in {workspace} yet. Start one with nanobot gateway, or name the workspace with -w."
        )
    return asyncio.run(_run(directory, work))


async def _run(directory: Path, work: Callable[["Store"], Awaitable[T]]) -> T:
    from nanobot.clock import deadline  # noqa: PLC0415 - lazy: --help needs no store
    from nanobot.stores.sqlite import SqliteStore  # noqa: PLC0415 - lazy: --help needs no store

    store = SqliteStore(directory)
    async with deadline(SECONDS, "the database"):
        await store.open()
        try:
            return await work(store)
        finally:
            await store.close()

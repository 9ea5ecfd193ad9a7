"""Requests of the command line to a gateway that runs: by the store, which both see."""

from contextlib import suppress

from loguru import logger

from nanobot.channel import Keys
from nanobot.child import Child
from nanobot.children import Children
from nanobot.clock import Clock
from nanobot.errors import NanobotError

POLL_SECONDS = 2.0


async def ask_to_end(keys: Keys, child: Child) -> None:
    await keys.set(child.id, "end")


async def follow(keys: Keys, children: Children, clock: Clock) -> None:
    """Forever: end what the command line asked to end."""
    while True:
        try:
            await answer(keys, children)
        except NanobotError as error:
            logger.error("a request of the command line could not be served: {}", error)
        await clock.sleep(POLL_SECONDS)


async def answer(keys: Keys, children: Children) -> None:
    """Serve what is asked for now."""
    for child_id, _ in await keys.items():
        child = children.records.by_id(child_id)
        if child is not None and not child.ended:
            with suppress(ValueError):  # it ended by itself meanwhile
                await children.end(child, "ended from the command line", tell=True, wait=False)
        await keys.delete(child_id)

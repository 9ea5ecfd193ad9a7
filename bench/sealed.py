"""What encrypted state costs: the same work on a plain and on a sealed state, one after the other."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import load
from bench.floor import past
from bench.gateway import Nanobot, Target, fresh
from bench.micro import LONG, timed
from bench.processes import running
from bench.turns import Effort, chats, note, warm

Figures = dict[str, float | str]

SEALED = "[security]\nencrypt_state = true\n"


async def sealed(target: Target, folder: Path, llm: str, *, quick: bool) -> Figures:
    """Ours alone; others have nothing of the kind."""
    if not isinstance(target, Nanobot):
        return {}
    figures: Figures = {}
    with a_key():
        for name, more in (("off", ""), ("on", SEALED)):
            figures |= files(fresh(folder) / name, name)
            figures |= await turns(target, fresh(folder / name), llm, name, more, quick=quick)
    return figures


def files(state: Path, name: str) -> Figures:
    """Save a turn durably into a session of 2,000 messages, and load one."""
    from nanobot.security import state_key
    from nanobot.stores.sessions import SessionManager

    if name == "on":
        state_key.begin(state)
    manager = SessionManager(directory=state / "sessions", max_messages=10 * LONG)
    session = manager.get_or_create("bench:long")
    for message in past(LONG):
        session.add_message(message["role"], message["content"])
    manager.save(session)

    def load_long() -> None:
        found = SessionManager(directory=state / "sessions").get_or_create("bench:long")
        assert len(found.messages) >= LONG

    figures: Figures = {f"sealed.load_{name}_ms": timed(load_long, 15)}

    def save() -> None:
        session.add_message("user", "x" * 270)
        session.add_message("assistant", "y" * 270)
        manager.save(session, fsync=True)

    figures[f"sealed.save_{name}_ms"] = timed(save, 100)
    return figures


async def turns(target: Nanobot, folder: Path, llm: str, name: str, more: str, *, quick: bool) -> Figures:
    """One chat at a time on an instant model: CPU of the gateway, and the memory afterwards."""
    figures: Figures = {}
    effort = Effort(slow=False, quick=quick)
    async with running(await target.start(folder, llm, "instant", more=more)) as server:
        await warm(server, effort)
        many, count = effort.single
        before = server.cpu()
        result = await load.run(
            server.socket, chats("one", many), count, one_by_one=True, timeout=effort.timeout
        )
        figures[f"sealed.cpu_{name}_ms"] = (server.cpu() - before) / max(1, result.turns) * 1e3
        figures[f"sealed.rss_{name}"] = server.rss()
        note(figures, "sealed", result)
    return figures


@contextmanager
def a_key() -> Iterator[None]:
    from nanobot.security import state_key

    before = os.environ.get(state_key.VARIABLE)
    os.environ[state_key.VARIABLE] = before or state_key.new_master()
    try:
        yield
    finally:
        if before is None:
            del os.environ[state_key.VARIABLE]

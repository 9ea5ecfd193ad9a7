"""Session files without a gateway: save a turn durably, load a long session, list many."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.floor import past
from bench.gateway import fresh

Figures = dict[str, float | str]

LONG = 2_000  # messages
LISTED = 5_000  # sessions


def ours(folder: Path, *, messages: int = LONG, listed: int = LISTED) -> Figures:
    """`SessionManager` as scripts use it."""
    from nanobot.stores.sessions import SessionManager

    manager = SessionManager(directory=fresh(folder) / "save", max_messages=10 * messages + LONG)
    session = manager.get_or_create("bench:save")
    for message in past(messages):
        session.add_message(message["role"], message["content"])
    manager.save(session)

    def save() -> None:
        session.add_message("user", "x" * 270)
        session.add_message("assistant", "y" * 270)
        manager.save(session, fsync=True)

    saved = timed(save, 100)
    manager = SessionManager(directory=folder / "load", max_messages=messages + LONG)
    session = manager.get_or_create("bench:load")
    for message in past(messages):
        session.add_message(message["role"], message["content"])
    manager.save(session)

    def load_long() -> None:
        found = SessionManager(directory=folder / "load").get_or_create("bench:load")
        assert len(found.messages) == messages

    many = SessionManager(directory=folder / "list")
    for number in range(listed):
        one = many.get_or_create(f"bench:{number}")
        one.add_message("user", f"question {number}")
        one.add_message("assistant", "answer")
        many.save(one, fsync=False)
        many.invalidate(one.key)
    many.list_sessions()
    many.flush_all()

    def list_all() -> None:
        assert len(many.list_sessions()) == listed

    def list_cold() -> None:
        assert len(SessionManager(directory=folder / "list").list_sessions()) == listed

    return {
        "micro.save_ms": saved,
        "micro.load_ms": timed(load_long, 15),
        "micro.list_ms": timed(list_all, 7),
        "micro.list_new_process_ms": timed(list_cold, 5),
    }


def floor(folder: Path, *, messages: int = LONG, listed: int = LISTED) -> Figures:
    """Plain files: append two lines and sync, parse the lines of one, read the head of many."""
    fresh(folder)
    path = folder / "long.jsonl"
    path.write_text("".join(json.dumps(message) + "\n" for message in past(messages)))
    with path.open("ab") as file:

        def save() -> None:
            turn = ({"role": "user", "content": "x" * 270}, {"role": "assistant", "content": "y" * 270})
            file.write("".join(json.dumps(line) + "\n" for line in turn).encode())
            file.flush()
            os.fdatasync(file.fileno())

        saved = timed(save, 100)
    path.write_text("".join(json.dumps(message) + "\n" for message in past(messages)))

    def load() -> None:
        with path.open("rb") as file:
            assert len([json.loads(line) for line in file]) == messages

    heads = folder / "list"
    heads.mkdir()
    for number in range(listed):
        (heads / f"{number}.jsonl").write_text(f'{{"key":"bench:{number}"}}\n{{"role":"user"}}\n')

    def list_all() -> None:
        for entry in os.scandir(heads):
            with open(entry.path, "rb") as file:
                json.loads(file.readline())

    return {
        "micro.save_ms": saved,
        "micro.load_ms": timed(load, 15),
        "micro.list_ms": timed(list_all, 5),
    }


def timed(work: Callable[[], None], times: int) -> float:
    """The median of so many runs, in ms."""
    taken: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return median(taken) * 1e3

"""Every fuzzing target over thousands of seeded mutations of sound inputs."""

import json
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fuzz.corpus import NAMES, corpus
from tests.fuzz.mutate import mutated, odd
from tests.fuzz.targets import TARGETS

CASES = int(os.environ.get("NANOBOT_FUZZ", "10000")) // 5


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_breaks_a_promise(name: str) -> None:
    chance = random.Random(name)
    for number, data in enumerate(inputs(name, chance)):
        try:
            TARGETS[name](data)
        except Exception as error:
            raise AssertionError(f"{name}, input {number}: {data!r}") from error


def test_every_target_is_fuzzed_by_make_fuzz() -> None:
    assert tuple(TARGETS) == NAMES


def inputs(name: str, chance: random.Random) -> Iterator[bytes]:
    """The corpus, then damaged bytes of it, and for JSON also sound JSON with odd values in odd places."""
    whole = corpus(name)
    yield from whole
    yield from (b"", b"\0", b"\xff\xfe", b"null", b"[" * 5000, b"{}" * 50)
    trees: list[Any] = []
    if name in ("slack_event", "telegram_update"):
        trees = [json.loads(one) for one in whole]
    for number in range(CASES):
        if trees and number % 4:
            yield json.dumps(odd(chance.choice(trees), chance)).encode()
        else:
            yield mutated(chance.choice(whole), chance)

"""Damaged and invented updates at a running Telegram channel: each is taken or left out, and none holds up the others."""

import json
import os
import random
from pathlib import Path
from typing import Any

from loguru import logger

from tests.channels.telegram_house import ANN, house
from tests.fuzz.mutate import mutated

CASES = max(200, int(os.environ.get("NANOBOT_FUZZ", "10000")) // 20)
SAMPLES = sorted((Path(__file__).parents[2] / "channels" / "telegram" / "samples").glob("*.json"))
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, 2**70, 1.5, "", "x", "\0", "\u202e", "\ud800", "💥" * 50, [], [{}], {}, {"a": {"b": []}}, [[[[]]]],
    -100_500, "1e999", [{"offset": -5, "length": 2**40, "type": "mention"}], {"id": 7}, "/goal", "/" * 300,
    [{"type": "text_mention", "offset": 3, "length": 9}],
)  # fmt: skip


def replaced(value: Any, chance: random.Random) -> Any:
    """The same update with something else at one place in it."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(list(value))
        return {**value, key: replaced(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.85:
        at = chance.randrange(len(value))
        return [*value[:at], replaced(value[at], chance), *value[at + 1 :]]
    return chance.choice(ODD)


def updates(chance: random.Random) -> list[dict[str, Any]]:
    originals = [json.loads(path.read_text("utf-8"))["update"] for path in SAMPLES]
    found: list[dict[str, Any]] = []
    while len(found) < CASES:
        original = json.loads(json.dumps(chance.choice(originals)))
        if chance.random() < 0.5:
            update = replaced(original, chance)
        else:
            try:
                update = json.loads(mutated(json.dumps(original).encode(), chance))
            except (ValueError, RecursionError):
                continue
        if isinstance(update, dict):
            about = update.get("message")
            if isinstance(about, dict) and about.get("message_id") == original.get("message", {}).get(
                "message_id"
            ):
                about["message_id"] = 1_000 + len(found)  # else they would be duplicates of each other
            # A kind that is edited as well as sent: the same damage has to be survived there.
            if chance.random() < 0.3 and "message" in update:
                update["edited_message"] = update.pop("message")
            found.append(update)
    return found


async def test_damaged_updates_hold_up_nobody(tmp_path: Path) -> None:
    chance = random.Random(int(os.environ.get("NANOBOT_SEED", "5")))
    faults: list[str] = []
    sink = logger.add(faults.append, level="ERROR", format="{message}")
    async with house(tmp_path) as gateway:
        number = 10_000
        for update in updates(chance):
            number += 1
            gateway.server.world.updates.append({**update, "update_id": number})
        gateway.server.world._update = number
        message = gateway.server.say(ANN, "still here")
        await gateway.server.until(lambda: not gateway.server.world.updates, 60)
        logger.remove(sink)
        taken = {one.text for one in gateway.port.accepted}

        assert message["text"] in taken
        assert faults == []
        assert len(gateway.port.accepted) > CASES // 10, "the damage left nothing to read: it proves nothing"

"""Damage as disks, editors and attackers make it, from a seed."""

import copy
import random
from collections.abc import Iterator
from typing import Any


def mutated(data: bytes, chance: random.Random, *, shuffle: bool = True) -> bytes:
    """One to four kinds of damage at once; `shuffle`: also lines in another order."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        if not out:
            return b""
        at, length = chance.randrange(len(out)), chance.choice((1, 1, 2, 8, 64, 500))
        match chance.randrange(9 if shuffle else 8):
            case 0:
                out[at] = chance.randrange(256)
            case 1:
                out[at] ^= 1 << chance.randrange(8)
            case 2:
                del out[at : at + length]
            case 3:
                out[at:at] = out[at : at + length]
            case 4:
                del out[at:]
            case 5:
                out[at : at + length] = b"\0" * min(length, len(out) - at)
            case 6:
                out[at:at] = chance.randbytes(length)
            case 7:
                out[at:at] = chance.choice(
                    (b"\n", b"{", b"}", b'"', b"[" * 2000, b"\xff\xfe", b"1e999", b"\\ud800")
                )
            case 8:
                lines = bytes(out).splitlines(keepends=True)
                chance.shuffle(lines)
                out = bytearray(b"".join(lines))
    return bytes(out)


ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**70, -(2**70), 1.5, 1e308, "", " ", "0", "-1", "a", "x" * 5000, "\0",
    "\u202e", "\ud800", "💥", "<!channel>", "<@UBOT>", "@nano_bot", "/start@nano_bot x", "../..", [], [None], {}, {"a": {}},
    [[]], [{}], [{"id": "F1"}], [{"file_id": 5}], [{"type": "mention", "offset": -5, "length": 999}], "1795248241.000100",
    "D1", "im", "bot_message", "message_changed", "file_share", "supergroup", "private", "nan",
)  # fmt: skip


def odd(tree: Any, chance: random.Random) -> Any:
    """A copy of a JSON value with one to four of its nodes replaced, removed, doubled or put elsewhere."""
    tree = copy.deepcopy(tree)
    for _ in range(chance.choice((1, 1, 2, 4))):
        places = list(nodes(tree))
        if not places:
            return chance.choice(ODD)
        holder, key = chance.choice(places)
        match chance.randrange(5):
            case 0 if isinstance(holder, dict):
                del holder[key]
            case 1:
                holder[key] = copy.deepcopy(tree)
            case 2:
                other, name = chance.choice(places)
                holder[key] = copy.deepcopy(other[name])
            case 3 if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[key]))
            case _:
                holder[key] = copy.deepcopy(chance.choice(ODD))
    return tree


def nodes(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a tree that holds something, as its holder and key."""
    keys = tree.keys() if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield tree, key
        yield from nodes(tree[key])

"""Damage as disks, editors and attackers make it, from a seed."""

import random


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

"""Text of strangers where it is shown: nothing in it rules a terminal, hides, or looks like a line of ours. Pure."""

import json
import re

# What may be unprintable, as `str.isprintable` then decides; from the blank to ~ everything is printable.
_ODD = re.compile(r"[^ -~]")


def clean(text: str) -> str:
    """On one line, with a blank for what cannot be shown."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def printable(text: str) -> str:
    """Over several lines, with a mark for what cannot be shown."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "�" for letter in text)


def one_line(text: str) -> str:
    """On one line, with everything told apart: a line end is a backslash and n, and so on."""
    doubled = text.replace("\\", "\\\\")
    return doubled if doubled.isprintable() else _ODD.sub(_escaped, doubled)


def in_json(text: str) -> str:
    """JSON that says the same, and shows what cannot be shown by its number. Line ends between values stay."""
    return text if text.isprintable() else _ODD.sub(_numbered, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else found[0].encode("unicode_escape").decode()


def _numbered(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() or found[0] == "\n" else json.dumps(found[0])[1:-1]

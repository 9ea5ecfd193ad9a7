"""Reads the statements of `queries.sql`, each under its heading `-- name --`."""

import re
from functools import cache
from pathlib import Path

HEADING = re.compile(r"^-- (\w+) --$", re.MULTILINE)
COMMENT = re.compile(r"^--.*\n?", re.MULTILINE)


@cache
def queries() -> dict[str, str]:
    """All statements by name; an unknown name is a KeyError."""
    _, *parts = HEADING.split(Path(__file__).with_name("queries.sql").read_text("utf-8"))
    names, texts = parts[::2], parts[1::2]
    return {name: COMMENT.sub("", text).strip() for name, text in zip(names, texts, strict=True)}


def schema() -> str:
    """The script that makes an empty database."""
    return Path(__file__).with_name("schema.sql").read_text("utf-8")

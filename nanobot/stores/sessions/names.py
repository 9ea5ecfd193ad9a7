"""Session keys ↔ file names."""

import base64
import hashlib
import re
from pathlib import Path

_UNSAFE = re.compile(r"[^a-z0-9._-]+")
_FORBIDDEN = re.compile(r'[<>:"/\\|?*]')
SLUG = 80  # characters


def safe_key(key: str) -> str:
    """The stem of a key's file: readable, and its own whatever the key's length, letters and case."""
    slug = _UNSAFE.sub("_", key.lower())[:SLUG].strip("._-") or "session"
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{slug}-{digest}"


def former_stems(key: str) -> list[str]:
    """The stems under which the reference's releases kept this key."""
    plain = _FORBIDDEN.sub("_", key).strip()
    coded = base64.urlsafe_b64encode(key.encode("utf-8", "surrogatepass")).decode().rstrip("=")
    # Longer names exist on no file system, and a dot at the front is not ours.
    return [stem for stem in (plain, coded) if stem and not stem.startswith(".") and len(stem.encode()) < 240]


def stem_of(path: Path) -> str:
    return path.name.removesuffix(".jsonl")

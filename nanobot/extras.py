"""Which pip extras are installed, by the metadata of the installed package; nothing is imported to find out."""

import re
import sys
from importlib import metadata


def missing(extra: str) -> list[str]:
    """The distributions that a pip extra names ("" = nanobot itself) and that are not installed."""
    try:
        requirements = metadata.requires("nanobot") or []
    except metadata.PackageNotFoundError:  # run from a checkout that was never installed
        return []
    absent = []
    for requirement in requirements:
        spec, _, marker = requirement.partition(";")
        wanted = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", marker)
        name = re.match(r"[A-Za-z0-9._-]+", spec.strip())
        if name is None or (wanted.group(1) if wanted else "") != extra:
            continue
        if "win32" in marker and sys.platform == "win32":
            continue
        try:
            metadata.version(name.group())
        except metadata.PackageNotFoundError:
            absent.append(name.group())
    return absent

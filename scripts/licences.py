"""Every locked package is under a licence that the project may be shipped with: `python scripts/licences.py`.

Read from the metadata of what is installed, so it costs nothing and asks nobody.
"""

import re
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCKS = ("run.lock", "dev.lock", "build.lock", "model.lock")

ALLOWED = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "MPL-2.0", "PSF-2.0", "Unlicense",
}  # fmt: skip
# What older metadata says instead of an identifier.
MEANT = {
    "Apache Software License": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
# Looked at by a person; the reason stands beside it.
LOOKED_AT = {
    "python-telegram-bot": "LGPL-3.0-only: an unchanged library of an optional extra, which its user can replace",
    "pyromark": "MIT, by the LICENSE file in its wheel; its metadata names none",
}


def main() -> int:
    names = sorted({name for lock in LOCKS for name in locked(ROOT / "requirements" / lock)})
    problems = [problem for name in names if (problem := judged(name))]
    for problem in problems:
        print(problem, file=sys.stderr)
    stale = sorted(LOOKED_AT.keys() - set(names))
    if stale:
        print(f"no longer locked, to be taken out of LOOKED_AT: {', '.join(stale)}", file=sys.stderr)
    if problems or stale:
        return 1
    print(f"licences: {len(names)} locked packages, all allowed")
    return 0


def locked(lock: Path) -> list[str]:
    return re.findall(r"^([A-Za-z0-9._-]+)==", lock.read_text(), re.MULTILINE)


def judged(name: str) -> str:
    """What is wrong with a package's licence; "" where nothing is."""
    if name in LOOKED_AT:
        return ""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return f"{name} is locked and not installed; run make test once, or scripts/setup.sh dev"
    return verdict(name, stated(about))


def stated(about: metadata.PackageMetadata) -> set[str]:
    """The identifiers that a package states; of alternatives any one will do, so they come as one text."""
    if expression := about.get("License-Expression"):
        return {part.strip("() ") for part in re.split(r"\bAND\b", expression)}
    classified = [
        one.rpartition(" :: ")[2] for one in about.get_all("Classifier") or () if one.startswith("License ::")
    ]
    # Several classifiers are alternatives, as far as one can tell.
    found = " OR ".join(MEANT.get(one, one) for one in classified)
    text = (about.get("License") or "").strip().partition("\n")[0]
    return {found or MEANT.get(text, text)} - {""}


def verdict(name: str, licences: set[str]) -> str:
    if not licences:
        return f"{name} states no licence; look at it and add it to LOOKED_AT, or do without it"
    wrong = [one for one in licences if not any(part.strip() in ALLOWED for part in one.split(" OR "))]
    return f"{name} is under {', '.join(sorted(wrong))}, which is not allowed" if wrong else ""


if __name__ == "__main__":
    sys.exit(main())

"""Where content lives: channels, skills, templates and the example workspace.

Shipped content has the shape of what a user may drop into a workspace; the nearest owner comes first.
"""

from pathlib import Path
from typing import Literal

Kind = Literal["channels", "skills", "templates", "workspace.example"]


def bundled(kind: Kind) -> Path:
    """The shipped folder of a kind: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).parent
    inside = package / "_bundled" / kind
    return inside if inside.is_dir() else package.parent / kind


def roots(kind: Kind, workspace: Path | None) -> list[Path]:
    """The folders that may hold this kind, the workspace's first; only those that exist."""
    places = [bundled(kind)] if workspace is None else [workspace / kind, bundled(kind)]
    return [place for place in places if place.is_dir()]


def find(kind: Kind, workspace: Path | None) -> dict[str, Path]:
    """The folders of this kind by name, sorted; a workspace's replaces a shipped one of the same name."""
    found: dict[str, Path] = {}
    for root in reversed(roots(kind, workspace)):
        found |= {one.name: one for one in root.iterdir() if one.is_dir() and one.name[0] not in "._"}
    return dict(sorted(found.items()))

"""Puts the repository's content folders into the wheel as nanobot/_bundled/<kind>.

Editable installs read them in place, so only standard builds copy (docs/decisions.md, "Content").
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KINDS = ("channels", "skills", "templates", "workspace.example")


class BundleContent(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "standard":
            for kind in KINDS:
                if Path(self.root, kind).is_dir():
                    build_data["force_include"][kind] = f"nanobot/_bundled/{kind}"

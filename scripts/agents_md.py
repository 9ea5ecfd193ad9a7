"""Write the module list of AGENTS.md from the modules' own first lines; `--check` only says whether it is right."""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- modules: made by scripts/agents_md.py -->", "<!-- /modules -->"


def line_of(path: Path) -> str | None:
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    return doc.splitlines()[0] if doc else None


def modules() -> str:
    out: list[str] = []
    for top in ("nanobot", "channels"):
        folders: dict[Path, list[str]] = {}
        for path in sorted((ROOT / top).rglob("*.py")):
            line = line_of(path)
            if line is not None:
                folders.setdefault(path.parent, []).append(f"- `{path.name}`: {line}")
        for folder, lines in sorted(folders.items()):
            out += [f"### {folder.relative_to(ROOT)}/", "", *lines, ""]
    return "\n".join(out)


def main() -> int:
    path = ROOT / "AGENTS.md"
    text = path.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    wanted = f"{head}{BEGIN}\n\n{modules()}\n{END}{tail}"
    if wanted == text:
        return 0
    if "--check" in sys.argv:
        print("AGENTS.md does not list the modules as they are: run .venv/bin/python scripts/agents_md.py")
        return 1
    path.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

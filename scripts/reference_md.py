"""Write docs/reference.md from what the program itself says: command line, chat commands, configuration, metrics.

`--check` only says whether it is right.
"""

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import typer

from nanobot import metrics
from nanobot.cli.root import app

ROOT = Path(__file__).parents[1]
PATH = ROOT / "docs" / "reference.md"
HEAD = """# Reference

Made by `scripts/reference_md.py` from the program itself. The protocol has [a page of its own](protocol.md)."""


def command_line() -> str:
    lines = ["## Command line", "", "| command | what it does |", "|---|---|"]
    walk(typer.main.get_command(app), "nanobot", lines)
    return "\n".join(lines)


def walk(command: Any, name: str, lines: list[str]) -> None:
    for key, child in sorted(getattr(command, "commands", {}).items()):
        full = f"{name} {key}"
        if getattr(child, "commands", None):
            walk(child, full, lines)
            continue
        wanted = [one for one in child.params if one.name not in {"workspace", "help"}]
        shown = " ".join(usage(one) for one in wanted)
        first = (
            (child.help or "")
            .strip()
            .split("\n\n")[0]
            .replace("\n", " ")
            .replace("\b", "")
            .replace("|", "\\|")
        )
        lines.append(f"| `{f'{full} {shown}'.strip()}` | {first} |")


def usage(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = (parameter.metavar or parameter.name).upper()
        return name if parameter.required else f"[{name.strip('[]')}]"
    flag = max(parameter.opts, key=len)
    return f"[{flag}]" if parameter.is_flag else f"[{flag} {parameter.name.upper()}]"


def chat_commands() -> str:
    """The tables are built with the gateway; their rows stand as calls of Entry in the sources."""
    lines = ["## Commands in any chat", "", "| command | what it does |", "|---|---|"]
    pattern = re.compile(r'Entry\(\s*"(\w+)",\s*(?:"([^"]+)"|([A-Z]+)),\s*"([^"]+)"', re.DOTALL)
    rows: dict[str, tuple[str, str]] = {}
    for path in sorted((ROOT / "nanobot").glob("*.py")):
        for found in pattern.finditer(path.read_text(encoding="utf-8")):
            written = found[2] or str(getattr(importlib.import_module(f"nanobot.{path.stem}"), found[3]))
            rows[found[1]] = (written, found[4])
    lines += [f"| `{usage.replace('|', chr(92) + '|')}` | {text} |" for usage, text in rows.values()]
    lines += ["", "In Slack `!` may stand for `/`. An unknown command is answered with the nearest one."]
    return "\n".join(lines)


def configuration() -> str:
    example = (ROOT / "workspace.example" / "config.toml").read_text(encoding="utf-8").strip()
    return (
        f"## Configuration\n\n`<workspace>/config.toml`, whole, with its defaults:\n\n```toml\n{example}\n```"
    )


def metrics_table() -> str:
    lines = ["## Metrics", "", "`/metrics`, for Prometheus:", "", "| metric | what it counts |", "|---|---|"]
    for family in metrics.REGISTRY.collect():
        suffix = "_total" if family.type == "counter" else ""
        lines.append(f"| `{family.name}{suffix}` | {family.documentation} |")
    return "\n".join(lines)


def main() -> int:
    parts = (command_line(), chat_commands(), configuration(), metrics_table())
    wanted = "\n\n".join((HEAD, *parts)) + "\n"
    if PATH.exists() and PATH.read_text(encoding="utf-8") == wanted:
        return 0
    if "--check" in sys.argv:
        print("docs/reference.md is not what the program says: run .venv/bin/python scripts/reference_md.py")
        return 1
    PATH.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

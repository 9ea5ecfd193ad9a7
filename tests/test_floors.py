"""The shape of the source: floors, lazy imports, adapters that see only their contract, manifests that fit.

It reads sources and imports none of them. A module that is not in the table fails: put it on a floor, here and in
docs/map.md.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from nanobot.manifest import read

ROOT = Path(__file__).parent.parent
MAX_LINES = 400

FLOORS: dict[int, set[str]] = {
    0: {"messages", "events", "errors", "clock", "plain"},
    1: {"budget", "channel", "executor", "files", "model", "owner", "store", "tool"},
    2: {
        "agent",
        "child",
        "frontmatter",
        "goal",
        "goal_texts",
        "goal_turns",
        "health",
        "history",
        "lifecycle",
        "mailbox",
        "pricing",
        "routing",
        "schedule",
        "trajectory",
        "watch",
        "watch_settings",
    },
    3: {
        "config",
        "content",
        "executors",
        "extras",
        "git_state",
        "logs",
        "manifest",
        "metrics",
        "models",
        "os_errors",
        "plugins",
        "project",
        "prompts",
        "security",
        "session_metrics",
        "skills",
        "stores",
        "task_files",
        "textfile",
        "tools",
        "workspace",
    },
    4: {
        "answering",
        "approval",
        "chat_commands",
        "child_care",
        "child_commands",
        "child_desk",
        "child_limits",
        "child_maker",
        "child_mailbox",
        "child_orphans",
        "child_records",
        "child_requests",
        "child_tasks",
        "child_trajectory",
        "children",
        "commands",
        "compactor",
        "conversation",
        "delegation",
        "delivery",
        "ending",
        "goal_commands",
        "goal_desk",
        "goal_facts",
        "goal_plan",
        "goal_verify",
        "goals",
        "lives",
        "pairing",
        "received",
        "progress",
        "scheduler",
        "session",
        "session_state",
        "surroundings",
        "watching",
        "workbench",
    },
    5: {
        "__main__",
        "app",
        "cli",
        "connections",
        "doctor",
        "footprint",
        "gateway",
        "http",
        "library",
        "lobby",
        "office",
        "port",
    },
}
BESIDE = {"testing", "testing_port", "contracts"}  # shipped for tests; nothing of the floors imports them
FLOOR_OF = {name: floor for floor, names in FLOORS.items() for name in names}


class Import(NamedTuple):
    """One imported module; `lazy` inside a function, `typing` only for type checkers."""

    module: str
    line: int
    lazy: bool
    typing: bool


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name; the package's own name stands for its __init__."""
    found = {}
    for path in sorted((ROOT / "nanobot").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if "_bundled" in parts:
            continue
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(module: str, path: Path) -> Iterator[Import]:
    """What a source imports, with `from package import module` resolved and relative names made absolute."""
    tree = ast.parse(path.read_text("utf-8"))
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]

    def walk(node: ast.AST, lazy: bool, typing: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from (Import(one.name, child.lineno, lazy, typing) for one in child.names)
            elif isinstance(child, ast.ImportFrom):
                base = child.module or ""
                if child.level:
                    start = package.split(".")
                    start = start[: len(start) - child.level + 1]
                    base = ".".join([*start, *([base] if base else [])])
                for one in child.names:
                    full = f"{base}.{one.name}"
                    yield Import(full if full in MODULES else base, child.lineno, lazy, typing)
            else:
                inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                checking = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
                yield from walk(child, lazy or inside, typing or checking)

    yield from walk(tree, lazy=False, typing=False)


def own(found: Import) -> bool:
    return found.module.split(".")[0] == "nanobot"


def unit(module: str) -> str:
    """The name the table knows a module by: its first part below the package."""
    return [*module.split("."), ""][1]


def adapters() -> dict[str, Path]:
    """The channel folders, shipped and in the example workspace."""
    places = (ROOT / "channels", ROOT / "workspace.example" / "channels")
    return {
        str(folder.relative_to(ROOT)): folder
        for place in places
        for folder in sorted(place.glob("*"))
        if folder.is_dir() and folder.name[0] not in "._"
    }


ADAPTERS = adapters()


@pytest.mark.parametrize("module", [name for name in MODULES if name != "nanobot"])
def test_imports_point_down(module: str) -> None:
    name = unit(module)
    assert name in FLOOR_OF or name in BESIDE, f"{module} is on no floor: add it to the table"
    if name in BESIDE:
        return
    for found in imports(module, MODULES[module]):
        target = unit(found.module)
        if not own(found) or not target:
            continue  # a library, or the package's own name (its version)
        assert target not in BESIDE, f"{module}:{found.line} imports {found.module}, which is for tests"
        assert target in FLOOR_OF, f"{module}:{found.line} imports {found.module}, which is on no floor"
        assert FLOOR_OF[target] <= FLOOR_OF[name], f"{module}:{found.line} imports {found.module}, above it"


def test_imports_go_round_in_no_circle() -> None:
    graph = {
        module: {found.module for found in imports(module, path) if own(found) and not found.typing}
        for module, path in MODULES.items()
        if module != "nanobot"
    }
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, f"circle: {' → '.join([*trail[trail.index(module) :], module])}"
        if module in done:
            return
        for target in sorted(graph.get(module, ())):
            visit(target, (*trail, module))
        done.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize("module", MODULES)
def test_an_import_inside_a_function_says_why(module: str) -> None:
    lines = MODULES[module].read_text("utf-8").splitlines()
    for found in imports(module, MODULES[module]):
        if not own(found) or not found.lazy:
            continue
        _, _, comment = lines[found.line - 1].partition("#")
        reason = re.sub(r"^\s*noqa(: ?[A-Z0-9, ]+)?", "", comment).strip(" -")
        above = [line.strip() for line in lines[max(0, found.line - 4) : found.line - 1]]
        assert reason or any(line.startswith("#") for line in above), (
            f"{module}:{found.line} imports {found.module} in a function without a comment that gives the reason"
        )


@pytest.mark.parametrize("module", MODULES)
def test_the_core_imports_no_adapter(module: str) -> None:
    assert not [one for one in imports(module, MODULES[module]) if one.module.split(".")[0] == "channels"]


@pytest.mark.parametrize("folder", ADAPTERS)
def test_an_adapter_sees_only_its_contract(folder: str) -> None:
    place = ADAPTERS[folder]
    package = f"channels.{place.name}"
    for path in sorted(place.rglob("*.py")):
        parts = path.relative_to(place).with_suffix("").parts
        name = ".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)])
        for found in imports(name, path):
            top = found.module.split(".")[0]
            allowed = found.module == "nanobot.channel" or f"{found.module}.".startswith(f"{package}.")
            assert top not in {"nanobot", "channels"} or allowed, (
                f"{path.relative_to(ROOT)}:{found.line} imports {found.module}; "
                "an adapter may import nanobot.channel and its own folder"
            )


@pytest.mark.parametrize("folder", ADAPTERS)
def test_a_manifest_fits_its_folder_and_the_project(folder: str) -> None:
    manifest = read(ADAPTERS[folder])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert not manifest.extra or manifest.extra in project["optional-dependencies"]
    if folder.startswith("channels/"):
        assert all(setting.help for setting in manifest.settings.values())
    for key, setting in manifest.settings.items():
        assert setting.secret or not re.search(r"token$|secret$|password", key), f"{key} is not marked secret"


def test_content_folders_are_not_packages() -> None:
    assert not (ROOT / "channels" / "__init__.py").exists()
    assert not (ROOT / "skills" / "__init__.py").exists()


def test_no_file_is_too_long_to_read() -> None:
    sources = [*MODULES.values(), *(ROOT / "channels").rglob("*.py")]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in sources}
    assert not {name: length for name, length in lengths.items() if length > MAX_LINES}

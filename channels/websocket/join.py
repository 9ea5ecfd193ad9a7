"""The modules that the page always needs as one file: one request, and one text to compress instead of fifty.

What a browser would do, done once by the server: the entry's static imports are followed, each module becomes a
function that is called once, in the order of evaluation, and what it exports is passed to those that import it.
Modules that are loaded later take their imports from the joined file, so that nothing exists twice. The sources work
without this too. A module written in a way that is not understood here is refused, by name.
"""

import posixpath
import re
from collections.abc import Callable

import msgspec

_HEAD = re.compile(
    r"""\s*(?:(?:import\s*(?:\{(?P<names>[^}]*)\}\s*from\s*|(?P<default>[\w$]+)\s+from\s*)?|"""
    r"""export\s*\{(?P<passed>[^}]*)\}\s*from\s*)"(?P<path>[^"]+)"\s*;?|"""
    r"""export\s*\{(?P<listed>[^}]*)\}(?!\s*from)\s*;?)"""
)
_LIST = re.compile(r"(?:^|(?<=[;}]))export\s*\{([^}]*)\}(?!\s*from)\s*;?", re.MULTILINE)
_NAMED = re.compile(
    r"(?:^|(?<=[;}]))export (?=(?:async )?(?:function\*?|class|const) ([\w$]+))", re.MULTILINE
)
_DEFAULT = re.compile(r"(?:^|(?<=[;}]))export default ", re.MULTILINE)
_LEFT = re.compile(r"(?:^|[;}])\s*(?:export\b|import\b(?!\s*[(.]))", re.MULTILINE)


class Unjoinable(Exception):
    """A module that cannot be joined; the text says which and why."""


class Module(msgspec.Struct, frozen=True):
    imports: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]  # path → (exported name, name here)
    exports: tuple[tuple[str, str], ...]  # (exported name, name here)
    body: str


class Joined(msgspec.Struct, frozen=True):
    entry: str
    modules: dict[str, tuple[str, ...]]  # path → what it exports; in the order of evaluation
    text: str

    def stub(self, path: str) -> str:
        """A joined module's own address, for those who import it by itself."""
        names = [name for name in self.modules[path] if name != "default"]
        text = f"{self._taken(path, [path])}export const{{{','.join(names)}}}={_name(path)};\n"
        return text + (f"export default {_name(path)}.default;\n" if "default" in self.modules[path] else "")

    def beside(self, path: str, text: str) -> str:
        """A module that is loaded later, taking from the joined file what is there."""
        module = _read(path, text)
        taken = [one for one, _ in module.imports if one in self.modules]
        if not taken:
            return text
        rest, at = [], 0
        while found := _HEAD.match(text, at):
            if found["listed"] is not None or _resolve(path, found["path"]) not in self.modules:
                rest.append(found[0].strip() + "\n")
            at = found.end()
        return "".join(rest) + self._taken(path, taken) + _bound(module, self.modules) + text[at:].lstrip()

    def _taken(self, path: str, modules: list[str]) -> str:
        names = ",".join(_name(one) for one in dict.fromkeys(modules))
        return f'import{{{names}}}from"{"../" * path.count("/") or "./"}{self.entry}";\n'


def join(entry: str, read: Callable[[str], str]) -> Joined:
    """Join the entry and all that it imports statically; `read` gives the text at a path.

    Raises Unjoinable for a circle of imports and for forms that are not understood.
    """
    found: dict[str, Module] = {}
    order: list[str] = []

    def visit(path: str, way: tuple[str, ...]) -> None:
        if path in way:
            raise Unjoinable(f"a circle of imports: {' → '.join((*way, path))}")
        if path in found:
            return
        found[path] = module = _read(path, read(path))
        for one, _ in module.imports:
            visit(one, (*way, path))
        order.append(path)

    visit(entry, ())
    modules = {path: tuple(name for name, _ in found[path].exports) for path in order}
    parts = []
    for path in order:
        module = found[path]
        given = ",".join(name if name == here else f"{name}:{here}" for name, here in module.exports)
        parts.append(
            f"const {_name(path)}=(()=>{{\n{_bound(module, modules)}{module.body}return{{{given}}};\n}})();\n"
        )
    parts.append(f"export{{{','.join(_name(path) for path in order)}}};\n")
    return Joined(entry, modules, "".join(parts))


def _read(path: str, text: str) -> Module:
    imports: list[tuple[str, tuple[tuple[str, str], ...]]] = []
    exports: list[tuple[str, str]] = []
    rest, at = "", 0
    while found := _HEAD.match(text, at):
        if found["listed"] is not None:
            rest += found[0]
        elif found["passed"] is not None:
            names = _pairs(found["passed"])
            imports.append((_resolve(path, found["path"]), tuple((name, f"{name}$") for name, _ in names)))
            exports += [(shown, f"{name}$") for name, shown in names]
        else:
            own = (("default", found["default"]),) if found["default"] else _pairs(found["names"] or "")
            imports.append((_resolve(path, found["path"]), own))
        at = found.end()
    body = rest + text[at:].lstrip()

    def listed(match: re.Match[str]) -> str:
        exports.extend((shown, here) for here, shown in _pairs(match[1]))
        return ""

    def named(match: re.Match[str]) -> str:
        exports.append((match[1], match[1]))
        return ""

    def unnamed(_match: re.Match[str]) -> str:
        exports.append(("default", "default$"))
        return "const default$="

    body = _DEFAULT.sub(unnamed, _NAMED.sub(named, _LIST.sub(listed, body)))
    if left := _LEFT.search(body):
        raise Unjoinable(f"{path}: {body[left.start() : left.start() + 60].strip()!r} is not understood")
    return Module(tuple(imports), tuple(exports), body.rstrip() + "\n")


def _bound(module: Module, modules: dict[str, tuple[str, ...]]) -> str:
    """The names that a module imports, taken from those it imports them from."""
    lines = []
    for path, names in module.imports:
        if path in modules and names:
            if missing := [name for name, _ in names if name not in modules[path]]:
                raise Unjoinable(f"{path} does not export {', '.join(missing)}")
            given = ",".join(name if name == here else f"{name}:{here}" for name, here in names)
            lines.append(f"const{{{given}}}={_name(path)};\n")
    return "".join(lines)


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    """`a, b as c` as ((a, a), (b, c))."""
    words = [part.split(" as ") for part in " ".join(text.split()).split(",") if part.strip()]
    return tuple((word[0].strip(), word[-1].strip()) for word in words)


def _resolve(path: str, target: str) -> str:
    if not target.startswith("."):
        raise Unjoinable(f"{path} imports {target!r}, which is no path")
    found = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if found.startswith("../"):
        raise Unjoinable(f"{path} imports {target!r}, which is outside the page's folder")
    return found


def _name(path: str) -> str:
    return "$" + re.sub(r"\W", "_", path.removesuffix(".js"))

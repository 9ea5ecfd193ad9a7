"""The head of a SKILL.md: `---`, keys and values, `---`, then the text.

The subset of YAML that skills use, read strictly and without a library: plain and quoted words, lists and maps in one
line (JSON included) or indented one level under their key, and `|` or `>` texts. Anchors, tags and the rest are not.
"""

import re
from typing import Any

MAX_HEAD = 16_384  # characters between the two markers
MAX_DEPTH = 8  # of nested lists and maps

_KEY = re.compile(r"([A-Za-z][\w.-]*)[ ]*:(?:[ ]+(.*))?$")
_PLAIN_END = re.compile(r"[,\]}]")
_WORDS = {"true": True, "false": False, "null": None, "~": None}


class BadFrontmatter(ValueError):
    """The head cannot be read; the message names its line."""


def parse(text: str) -> tuple[dict[str, Any], str]:
    """Split a document into its keys and its body. Raises BadFrontmatter and nothing else."""
    lines = text.lstrip("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        raise BadFrontmatter("line 1: the file must begin with ---")
    end = next((number for number in range(1, len(lines)) if lines[number].rstrip() == "---"), None)
    if end is None:
        raise BadFrontmatter("no closing --- found")
    head = lines[1:end]
    if sum(map(len, head)) > MAX_HEAD:
        raise BadFrontmatter(f"the head is longer than {MAX_HEAD} characters")
    return _map(head, 2), "\n".join(lines[end + 1 :]).strip()


def _map(lines: list[str], first: int) -> dict[str, Any]:
    """The keys of a block; `first` is the line number of its first line in the file."""
    found: dict[str, Any] = {}
    number = 0
    while number < len(lines):
        line, at = lines[number].rstrip(), first + number
        number += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _KEY.match(line)
        if match is None:
            raise BadFrontmatter(f"line {at}: expected `key: value`")
        key, rest = match.group(1), (match.group(2) or "").strip()
        if key in found:
            raise BadFrontmatter(f"line {at}: {key} is given twice")
        block: list[str] = []
        while number < len(lines) and (not lines[number].strip() or lines[number][0] in " -"):
            block.append(lines[number])
            number += 1
        found[key] = _value(rest, block, at)
    return found


def _value(rest: str, block: list[str], at: int) -> Any:
    if any("\t" in line[: len(line) - len(line.lstrip())] for line in block):
        raise BadFrontmatter(f"line {at}: indent with spaces")
    filled = [line for line in block if line.strip()]
    if rest[:1] in {"|", ">"} and rest.strip("|>+-") == "":
        return _folded(rest[0], block)
    if not filled:
        return _Flow(rest, at).whole() if rest else ""
    if rest.startswith(("{", "[")):  # one value over several lines
        return _Flow(" ".join([rest, *(line.strip() for line in filled)]), at).whole()
    if rest:
        raise BadFrontmatter(f"line {at + 1}: nothing may be indented under a value")
    bare = [line.strip() for line in filled if not line.lstrip().startswith("#")]
    if bare and all(line == "-" or line.startswith("- ") for line in bare):
        return [_Flow(line[1:].strip(), at).whole() for line in bare]
    if filled[0][0] == "-":
        raise BadFrontmatter(f"line {at + 1}: expected `- item`")
    indent = min(len(line) - len(line.lstrip(" ")) for line in filled)
    if len(filled[0]) - len(filled[0].lstrip()) != indent:
        raise BadFrontmatter(f"line {at + 1}: lines of one block begin in one column")
    if indent > MAX_DEPTH * 4:
        raise BadFrontmatter(f"line {at + 1}: nested too deep")
    return _map([line[indent:] for line in block], at + 1)


def _folded(style: str, block: list[str]) -> str:
    stripped = [line.strip() for line in block]
    if style == "|":
        return "\n".join(stripped).strip()
    return "\n".join(" ".join(part.split("\n")) for part in "\n".join(stripped).strip().split("\n\n"))


class _Flow:
    """A value that stands in one line."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at
        self.place = 0

    def whole(self) -> Any:
        if self.text[:1] not in {"[", "{", '"', "'"}:
            return _plain(self.text)
        value = self._value(0)
        rest = self.text[self.place :].strip()
        if rest and not rest.startswith("#"):
            raise self._bad(f"unexpected {rest[:20]!r}")
        return value

    def _value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise self._bad("nested too deep")
        self._space()
        match self._peek():
            case "[":
                return self._list(depth)
            case "{":
                return self._object(depth)
            case '"' | "'":
                return self._quoted()
            case _:
                return _plain(self._until(_PLAIN_END))

    def _list(self, depth: int) -> list[Any]:
        values: list[Any] = []
        self.place += 1
        while not self._closes("]"):
            values.append(self._value(depth + 1))
            self._comma("]")
        return values

    def _object(self, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        self.place += 1
        while not self._closes("}"):
            key = (
                self._quoted() if self._peek() in {'"', "'"} else self._until(re.compile(r"[:,}\]]")).strip()
            )
            self._space()
            if not key or self._peek() != ":":
                raise self._bad("expected `key: value` between braces")
            self.place += 1
            values[key] = self._value(depth + 1)
            self._comma("}")
        return values

    def _quoted(self) -> str:
        quote = self._peek()
        pattern = r'"((?:[^"\\]|\\.)*)"' if quote == '"' else r"'((?:[^']|'')*)'"
        match = re.compile(pattern).match(self.text, self.place)
        if match is None:
            raise self._bad("a quote is not closed")
        self.place = match.end()
        if quote == "'":
            return match.group(1).replace("''", "'")
        return re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), match.group(1))

    def _until(self, end: re.Pattern[str]) -> str:
        match = end.search(self.text, self.place)
        start, self.place = self.place, match.start() if match else len(self.text)
        return self.text[start : self.place]

    def _closes(self, mark: str) -> bool:
        self._space()
        if not self._peek():
            raise self._bad(f"{mark} is missing")
        if self._peek() == mark:
            self.place += 1
            return True
        return False

    def _comma(self, mark: str) -> None:
        self._space()
        if self._peek() == ",":
            self.place += 1
        elif self._peek() != mark:
            raise self._bad(f"expected , or {mark}")

    def _peek(self) -> str:
        return self.text[self.place : self.place + 1]

    def _space(self) -> None:
        while self._peek().isspace():
            self.place += 1

    def _bad(self, what: str) -> BadFrontmatter:
        return BadFrontmatter(f"line {self.at}: {what}")


def _plain(text: str) -> Any:
    text = re.split(r"(?:^|\s)#", text, maxsplit=1)[0].strip()
    return _WORDS.get(text.lower(), text)

"""Scripts and styles without their comments and idle blanks, for the wire; the sources stay as they are.

Careful rather than clever: strings, templates and regular expressions are copied as they stand, line ends stay where a
statement may end at them, names are never touched. Only templates tagged `html` lose their indentation, which draws
nothing. What cannot be read with certainty is returned unchanged.
"""

import re

# After one of these a slash begins a regular expression; after anything else it divides.
_BEFORE_REGEX = frozenset("(,=:[!&|?{};+-*%~^<>")
_WORDS_BEFORE_REGEX = frozenset(
    ("return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else", "do")
)
_WORD = re.compile(r"[\w$]+$")
_REGEX = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+/[a-z]*")
_STRING = re.compile(r""""(?:\\[^\0]|[^"\\\n])*"|'(?:\\[^\0]|[^'\\\n])*'""")
_PLAIN = re.compile(r"[^\"'`/{}\s]+")
_TAG = re.compile(r"\bhtml$")
_INDENT = re.compile(r"\s*\n\s*")
# Beside these a blank means nothing, and none of them makes another word of what it then stands next to.
_TIGHT = frozenset("{}()[];,=:?|&!>")
# No statement ends at a line end behind one of the first; before one of the second it ends without.
_GOES_ON = frozenset("{;,([")
_CLOSES = frozenset("});,]")
_CSS_STRING = r"""("(?:\\[^\0]|[^"\\])*"|'(?:\\[^\0]|[^'\\])*')"""
_CSS = re.compile(_CSS_STRING + r"|/\*(?:[^*]|\*(?!/))*\*/")
_CSS_SPACE = re.compile(_CSS_STRING + r"|(?:\s*;)?\s*(\})\s*|\s*([{;,])\s*|(:)\s+|\s+")


class Unclear(Exception):
    """The text ends inside a string, a template or a comment."""


def script(text: str) -> str:
    """JavaScript without comments, blank lines, indentation, and blanks beside brackets and most signs."""
    try:
        return _Script(text).run()
    except Unclear:
        return text


def style(text: str) -> str:
    """CSS without comments, and with blanks only where they part two words."""
    bare = _CSS.sub(lambda found: found[1] or " ", text)
    return _CSS_SPACE.sub(lambda found: found[found.lastindex or 0].strip() or " ", bare).strip() + "\n"


class _Script:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._out: list[str] = []
        self._last = ""  # the last piece that means something
        # Open braces: "" for a plain one; else the tag, or "`", of the template whose `${` it belongs to.
        self._braces: list[str] = []

    def run(self) -> str:
        text = self._text
        while self._at < len(text):
            mark = text[self._at]
            if mark.isspace():
                self._space()
            elif mark in "\"'":
                self._copy(_STRING)
            elif mark == "`":
                self._at += 1
                tagged = _TAG.search(self._last)
                self._put("`")
                self._template(tagged[0] if tagged else "`")
            elif mark == "/":
                self._slash()
            elif mark in "{}":
                self._at += 1
                self._put(mark)
                if mark == "{":
                    self._braces.append("")
                elif not self._braces:
                    raise Unclear
                elif tag := self._braces.pop():
                    self._template(tag)
            else:
                self._copy(_PLAIN)
        if self._braces:
            raise Unclear
        return "".join(self._out).strip() + "\n"

    def _put(self, piece: str) -> None:
        space = self._out[-1] if self._out else ""
        if space == " " and (piece[:1] in _TIGHT or self._last[-1:] in _TIGHT):
            self._out.pop()
        if space == "\n" and (piece[:1] in _CLOSES or self._last[-1:] in _GOES_ON):
            self._out.pop()
        self._out.append(piece)
        self._last = piece

    def _copy(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise Unclear
        self._at = found.end()
        self._put(found[0])

    def _space(self) -> None:
        """A line end stays one, since a statement may end there; other space becomes one blank."""
        start = self._at
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        self._gap("\n" if "\n" in self._text[start : self._at] else " ")

    def _gap(self, space: str) -> None:
        if not self._out or self._out[-1] == "\n":
            return
        if self._out[-1] == " ":
            if space == "\n":
                self._out[-1] = "\n"
            return
        self._out.append(space)

    def _slash(self) -> None:
        text = self._text
        if text.startswith("//", self._at):
            end = text.find("\n", self._at)
            self._at = len(text) if end < 0 else end
        elif text.startswith("/*", self._at):
            end = text.find("*/", self._at + 2)
            if end < 0:
                raise Unclear
            self._gap("\n" if "\n" in text[self._at : end] else " ")
            self._at = end + 2
        elif self._regex_may_begin():
            self._copy(_REGEX)
        else:
            self._at += 1
            self._put("/")

    def _regex_may_begin(self) -> bool:
        if not self._last or self._last[-1] in _BEFORE_REGEX:
            return True
        word = _WORD.search(self._last)
        return word is not None and word[0] in _WORDS_BEFORE_REGEX

    def _template(self, tag: str) -> None:
        """Copy a template's text up to its end, or to an expression in it."""
        text, start = self._text, self._at
        while True:
            if self._at >= len(text):
                raise Unclear
            mark = text[self._at]
            if mark == "\\":
                self._at += 2
            elif mark == "`":
                self._at += 1
                break
            elif text.startswith("${", self._at):
                self._at += 2
                self._braces.append(tag)
                break
            else:
                self._at += 1
        piece = text[start : self._at]
        self._put(_INDENT.sub("\n", piece) if tag == "html" else piece)

"""HTML as text a model can read: title, headings, paragraphs, lists, links, tables and code; no scripts or styles."""

import re
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

_SILENT = frozenset(
    {"script", "style", "noscript", "template", "svg", "iframe", "canvas", "object", "select"}
)
# fmt: off
_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "footer", "form", "header", "hr", "main", "nav", "ol", "p", "section", "summary", "table",
    "tbody", "tfoot", "thead", "tr", "ul",
})
# fmt: on
_ROWS = frozenset({"tr", "dt", "dd"})
_HEADINGS = {f"h{n}": "#" * n for n in range(1, 7)}
_DEEPEST = 8  # levels of a list that are indented
_INDENT = "\x01"  # stands for two spaces until the other spaces are folded
_VOID = frozenset(
    {"br", "hr", "img", "input", "link", "meta", "source", "wbr", "area", "base", "col", "embed", "track"}
)


def answer(request: dict[str, str | int]) -> dict[str, str | int]:
    """For `worker`: {html, base, limit} → {title, text, length}, where the text is cut at the limit."""
    title, text = readable(str(request["html"]), str(request["base"]))
    return {"title": title[:500], "text": text[: int(request["limit"])], "length": len(text)}


def readable(html: str, base: str = "") -> tuple[str, str]:
    """The title and the text of a page. `base` makes its links absolute."""
    reader = _Reader(base)
    reader.feed(html)
    reader.close()
    return " ".join("".join(reader.title).split()), reader.text()


class _Reader(HTMLParser):
    def __init__(self, base: str) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self._out: list[str] = []
        self._base = base
        self._silent = 0  # depth inside elements that show nothing
        self._in_title = False
        self._code = 0  # depth inside <pre>, where spaces count
        self._link = ("", -1)  # the open link's target, and where its text begins in _out; links do not nest
        self._lists: list[int] = []  # per open list: the next number, or -1 for bullets

    def text(self) -> str:
        parts = re.split(r"(```\n.*?\n```)", "".join(self._out), flags=re.DOTALL)
        for at in range(0, len(parts), 2):
            lines = [re.sub(r"[ \t\r\f\v\xa0]+", " ", line).strip() for line in parts[at].split("\n")]
            parts[at] = "\n".join(lines).replace(_INDENT, "  ")
        return re.sub(r"\n{3,}", "\n\n", "".join(parts)).strip()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent += 1
        elif self._silent:
            return
        elif tag == "title":
            self._in_title = True
        elif tag in _HEADINGS:
            self._out.append(f"\n\n{_HEADINGS[tag]} ")
        elif tag == "pre":
            self._code += 1
            self._out.append("\n\n```\n")
        elif tag == "br":
            self._out.append("\n")
        elif tag == "li":
            self._item()
        elif tag in ("td", "th"):
            self._out.append(" | ")
        elif tag == "a":
            target = dict(attrs).get("href") or ""
            self._link = (target, len(self._out))
        elif tag == "img":
            if described := (dict(attrs).get("alt") or "").strip():
                self._out.append(f"[image: {described}]")
        elif tag == "code" and not self._code:
            self._out.append("`")
        elif tag in _BLOCKS:
            self._break(tag)
            if tag in ("ul", "ol"):
                self._lists.append(1 if tag == "ol" else -1)

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        elif self._silent or tag in _VOID:
            return
        elif tag == "title":
            self._in_title = False
        elif tag == "pre":
            self._code = max(0, self._code - 1)
            self._out.append("\n```\n\n")
        elif tag == "a":
            self._end_link()
        elif tag == "code" and not self._code:
            self._out.append("`")
        elif tag in _BLOCKS or tag in _HEADINGS:
            if tag in ("ul", "ol") and self._lists:
                self._lists.pop()
            if tag not in _ROWS:
                self._break(tag)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._silent:
            self._out.append(data if self._code else re.sub(r"\s+", " ", data))

    def _break(self, tag: str) -> None:
        """Inside a list the items make the lines; a row makes one, any other block an empty one."""
        if not (self._lists and tag in ("ul", "ol")):
            self._out.append("\n" if tag in _ROWS or self._lists else "\n\n")

    def _item(self) -> None:
        depth = min(max(0, len(self._lists) - 1), _DEEPEST)
        number = self._lists[-1] if self._lists else -1
        if number > 0:
            self._lists[-1] += 1
        self._out.append(f"\n{_INDENT * depth}{f'{number}.' if number > 0 else '-'} ")

    def _end_link(self) -> None:
        (target, start), self._link = self._link, ("", -1)
        if start < 0:
            return
        text = "".join(self._out[start:]).strip()
        if not text or not target or target.startswith(("#", "javascript:", "data:")):
            return
        try:
            target = urlsplit(urljoin(self._base, target)).geturl()
        except ValueError:
            return
        if not self._code and "\n" not in text:
            del self._out[start:]
            self._out.append(f"[{text}]({target})")

"""The page's files as they are sent: joined, without comments, compressed; made once and again when a source changes."""

import gzip
import logging
import re
from hashlib import sha256
from pathlib import Path

import msgspec

from . import slim
from .join import Joined, Unjoinable, join

ENTRY = "app.js"
VENDOR = "vendor/"  # minified by those who made it
PACKED = frozenset((".png", ".ico", ".woff2"))  # compressed already
_IMPORT = re.compile(r'^@import "\./([\w.-]+)";\n', re.MULTILINE)

Stamp = tuple[int, int]  # mtime in ns and size, by which a changed file is noticed

log = logging.getLogger(__name__)


class Asset(msgspec.Struct, frozen=True):
    sources: dict[str, Stamp]
    etag: str
    body: bytes  # compressed where that helps
    packed: bool


class Maker:
    """Makes one folder's assets. It reads and compresses, so it belongs into a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._core: tuple[dict[str, Stamp], Joined | None] | None = None

    def current(self, asset: Asset) -> bool:
        return all(self.stamp(name) == stamp for name, stamp in asset.sources.items())

    def stamp(self, name: str) -> Stamp | None:
        """None where there is no such file."""
        try:
            found = (self._folder / name).stat()
        except (OSError, ValueError):
            return None
        return found.st_mtime_ns, found.st_size

    def make(self, name: str) -> Asset:
        """Raises OSError where there is no such file."""
        sources: dict[str, Stamp] = {}
        suffix = Path(name).suffix
        if suffix == ".js":
            data = self._script(name, sources).encode()
        elif suffix == ".css":
            data = self._style(name, sources).encode()
        else:
            data = self._read(name, sources)
        packed = suffix not in PACKED
        body = gzip.compress(data, 9, mtime=0) if packed else data
        return Asset(sources, f'"{sha256(data).hexdigest()[:20]}"', body, packed)

    def _read(self, name: str, sources: dict[str, Stamp]) -> bytes:
        stamp = self.stamp(name)
        data = (self._folder / name).read_bytes()
        if stamp is not None:
            sources[name] = stamp
        return data

    def _slim(self, name: str, sources: dict[str, Stamp]) -> str:
        text = self._read(name, sources).decode()
        return text if name.startswith(VENDOR) else slim.script(text)

    def _style(self, name: str, sources: dict[str, Stamp]) -> str:
        text = self._read(name, sources).decode()
        if name.startswith(VENDOR):
            return text
        return slim.style(_IMPORT.sub(lambda found: self._read(found[1], sources).decode(), text))

    def _script(self, name: str, sources: dict[str, Stamp]) -> str:
        own = self._slim(name, sources)
        core = self._joined(sources)
        if core is None:
            return own
        if name == core.entry:
            return core.text
        if name in core.modules:
            return core.stub(name)
        return own if name.startswith(VENDOR) else core.beside(name, own)

    def _joined(self, sources: dict[str, Stamp]) -> Joined | None:
        """The core as it is now; None where it cannot be joined, and every module goes by itself."""
        if self._core is None or any(self.stamp(name) != stamp for name, stamp in self._core[0].items()):
            read: dict[str, Stamp] = {}
            try:
                self._core = read, join(ENTRY, lambda path: self._slim(path, read))
            except (Unjoinable, OSError) as error:
                log.warning("the page is sent module by module: %s", error)
                self._core = read, None
        sources |= self._core[0]
        return self._core[1]

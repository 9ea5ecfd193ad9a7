"""The web page's files: made small once, checked by ETag, under a strict content policy."""

import asyncio
import gzip
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .assets import Asset, Maker
from .auth import host_name
from .desk import Desk

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".md": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}
_SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Pages:
    """Serves one folder, and nothing outside it."""

    def __init__(self, desk: Desk, folder: Path) -> None:
        self._desk = desk
        self._folder = folder.resolve()
        self._maker = Maker(self._folder)
        self._assets: dict[str, Asset] = {}

    def routes(self) -> list[Route]:
        return [Route("/", self.serve, methods=["GET"]), Route("/{path:path}", self.serve, methods=["GET"])]

    async def serve(self, request: Request) -> Response:
        host = request.headers.get("host", "")
        # A page that another site links to is still the page: only the Host can make it dangerous.
        if not self._desk.host_allowed(request.scope):
            return Response("this Host may not ask", 403, _SECURITY)
        name = request.path_params.get("path", "") or "index.html"
        if name.startswith("api/"):
            raise HTTPException(404)  # told as the REST tells it
        path = self._resolve(name)
        if path is None:
            return Response("there is no such file", 404, _SECURITY)
        asset = await self._load(path)
        if asset is None:
            return Response("there is no such file", 404, _SECURITY)
        headers = {
            **_SECURITY,
            "ETag": asset.etag,
            "Cache-Control": "no-cache",
            "Vary": "Accept-Encoding",
            "Content-Security-Policy": policy(host),
        }
        if asset.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        body = asset.body
        if asset.packed and "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
        elif asset.packed:
            body = await asyncio.to_thread(gzip.decompress, body)
        return Response(body, 200, headers, media_type=_TYPES[path.suffix])

    def _resolve(self, name: str) -> Path | None:
        """The file meant, None where it is none of ours."""
        if "\0" in name or "\\" in name or any(part.startswith(".") for part in name.split("/")):
            return None
        path = (self._folder / name).resolve()
        return path if path.is_relative_to(self._folder) and path.suffix in _TYPES else None

    async def _load(self, path: Path) -> Asset | None:
        name = path.relative_to(self._folder).as_posix()
        asset = self._assets.get(name)
        # Asking for the sources' times takes microseconds, and it spares a thread per file.
        if asset is None or not self._maker.current(asset):
            try:
                asset = await asyncio.to_thread(self._maker.make, name)
            except OSError:  # a folder, or gone since
                return None
            self._assets[name] = asset
        return asset


def policy(host: str) -> str:
    """The page's content policy: its own files and its own socket, nothing inline, nothing from elsewhere."""
    name = host_name(host)
    socket = f"ws://{host}" if name in ("localhost", "127.0.0.1", "::1") else f"ws://{host} wss://{host}"
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
        f"connect-src 'self' {socket}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )

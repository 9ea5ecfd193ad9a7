"""The page's files: policy, caching, compression, and nothing outside the folder."""

import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from channels.websocket.desk import Desk
from channels.websocket.hub import Hub
from channels.websocket.pages import Pages
from channels.websocket.settings import Settings
from nanobot.http import HttpServer, build
from nanobot.testing_port import FakePort
from tests.channels.websocket_client import House, house


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[House]:
    """The page's handler over a folder of our own, behind a real server."""
    web = tmp_path / "web"
    (web / "vendor").mkdir(parents=True)
    (web / "index.html").write_text("<!doctype html><title>nanobot</title>" + "x" * 2_000)
    (web / "app.js").write_text("export {}")
    (web / ".hidden.js").write_text("secret")
    (web / "notes.py").write_text("secret")
    (tmp_path / "config.js").write_text("secret")
    (web / "link.js").symlink_to(tmp_path / "config.js")
    port = FakePort(tmp_path, name="websocket")
    pages = Pages(Desk(port, Settings(), Hub("websocket", "e")), web)

    async def health() -> dict[str, str]:
        return {}

    server = HttpServer(build(pages.routes(), health=health, ready=lambda: True, metrics=lambda: b""))
    await server.start()
    yield House(port, None, server)  # type: ignore[arg-type]
    await server.stop()


async def test_the_page_comes_with_its_exact_policy(site: House) -> None:
    async with site.http() as http, http.get("/") as answer:
        headers = answer.headers
        assert (await answer.text()).startswith("<!doctype html>")

    host = f"127.0.0.1:{site.server.port}"
    assert headers["Content-Security-Policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
        f"connect-src 'self' ws://{host}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Content-Type"] == "text/html; charset=utf-8"


async def test_files_are_compressed_and_asked_for_again_by_etag(site: House) -> None:
    async with site.http() as http:
        async with http.get("/", headers={"Accept-Encoding": "gzip"}, auto_decompress=False) as answer:
            packed, etag = await answer.read(), answer.headers["ETag"]
            encoding = answer.headers["Content-Encoding"]
        async with http.get("/", headers={"Accept-Encoding": "identity"}) as answer:
            plain = await answer.read()
            unpacked = "Content-Encoding" not in answer.headers
        async with http.get("/", headers={"If-None-Match": etag}) as answer:
            unchanged = answer.status
            policy = answer.headers["Content-Security-Policy"]
        (site.port.workspace / "web" / "index.html").write_text("new")
        async with http.get("/index.html", headers={"If-None-Match": etag}) as answer:
            changed = (answer.status, await answer.text())

    assert (encoding, gzip.decompress(packed)) == ("gzip", plain)
    assert unpacked
    assert unchanged == 304
    assert policy
    assert changed == (200, "new")


@pytest.mark.parametrize(
    "path",
    [
        "/../config.js",
        "/..%2fconfig.js",
        "/%2e%2e/config.js",
        "/vendor/..%2f..%2fconfig.js",
        "/..%5cconfig.js",
        "/.hidden.js",
        "/link.js",
        "/notes.py",
        "/vendor",
        "/app.js%00.html",
        "//etc/passwd",
        "/%2fetc%2fpasswd",
        "/missing.js",
    ],
)
async def test_nothing_outside_the_folder_is_served(site: House, path: str) -> None:
    from yarl import URL

    async with site.http() as http, http.get(URL(site.url + path, encoded=True)) as answer:
        body = await answer.text()

    assert answer.status == 404
    assert "secret" not in body


async def test_a_foreign_host_gets_no_page(site: House) -> None:
    async with site.http() as http, http.get("/", headers={"Host": "evil.example"}) as answer:
        assert answer.status == 403


async def test_the_shipped_page_is_served(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.http() as http, http.get("/vendor/preact.js") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"

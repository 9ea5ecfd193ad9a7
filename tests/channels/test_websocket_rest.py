"""The REST beside the socket: same principals, no leaks, limits."""

import io
from pathlib import Path
from typing import Any

import pytest

from nanobot.messages import Line
from nanobot.testing_port import line
from tests.channels.websocket_client import House, house

TOKENS: dict[str, Any] = {"token": "own-secret", "users": {"alice": "a-secret", "bob": "b-secret"}}
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 32


async def call(
    gateway: House, method: str, path: str, token: str = "", **options: Any
) -> tuple[int, Any, dict[str, str]]:
    async with gateway.http(token) as http, http.request(method, path, **options) as answer:
        kind = answer.headers.get("Content-Type", "")
        body = await (answer.json() if kind.startswith("application/json") else answer.read())
        return answer.status, body, dict(answer.headers)


async def test_sessions_are_listed_read_renamed_searched_and_deleted(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        lines = gateway.port.histories.lines
        lines["websocket:work"] = [line("user", f"question {number}", f"t{number}") for number in range(30)]
        lines["slack:C1:1712.3"] = [line("user", "from slack")]
        _, listed, _ = await call(gateway, "GET", "/api/sessions")
        _, page, _ = await call(gateway, "GET", "/api/sessions/websocket:work/messages?limit=10")
        _, older, _ = await call(
            gateway, "GET", f"/api/sessions/websocket%3Awork/messages?limit=10&before={page['before']}"
        )
        _, renamed, _ = await call(
            gateway, "PATCH", "/api/sessions/slack:C1:1712.3", json={"title": " A\u0000\n title "}
        )
        _, found, _ = await call(gateway, "GET", "/api/search?q=question%2029")
        nowhere, _, _ = await call(gateway, "PATCH", "/api/sessions/websocket:none", json={"title": "x"})
        deleted, _, _ = await call(gateway, "DELETE", "/api/sessions/websocket:work")
        again, _, _ = await call(gateway, "DELETE", "/api/sessions/websocket:work")
        _, commands, _ = await call(gateway, "GET", "/api/commands")

    assert [(one["key"], one["channel"], one["chat_id"]) for one in listed["sessions"]] == [
        ("websocket:work", "websocket", "work"),
        ("slack:C1:1712.3", "slack", "C1:1712.3"),
    ]
    assert page["messages"][-1]["content"] == "question 29"
    assert older["messages"][-1]["content"] == "question 19"
    assert renamed["title"] == "A title"
    assert gateway.port.histories.titles == {"slack:C1:1712.3": "A title"}
    assert [hit["key"] for hit in found["hits"]] == ["websocket:work"]
    assert (nowhere, deleted, again) == (404, 200, 404)
    assert commands["commands"][0]["name"] == "help"


async def test_lines_of_other_gateways_are_told_in_our_words(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        gateway.port.histories.lines["websocket:old"] = [
            Line(role="user", content="/status", _command=True),
            Line(role="assistant", content="Fine.", reasoning_content="I look around."),
        ]
        _, page, _ = await call(gateway, "GET", "/api/sessions/websocket:old/messages")

    assert page["messages"] == [
        {"role": "user", "content": "/status", "injected": "command"},
        {"role": "assistant", "content": "Fine.", "reasoning": "I look around."},
    ]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/api/search", None, 400),
        ("GET", "/api/search?q=" + "x" * 501, None, 400),
        ("GET", "/api/sessions/websocket:a/messages?before=-1", None, 400),
        ("GET", "/api/sessions/websocket:a/messages?limit=many", None, 400),
        ("PATCH", "/api/sessions/websocket:a", b"not json", 400),
        ("PATCH", "/api/sessions/websocket:a", b'{"title": 5}', 400),
        ("PATCH", "/api/sessions/websocket:a", b"[" * 60_000, 400),
        ("PATCH", "/api/sessions/websocket:a", b"x" * 70_000, 413),
        ("DELETE", "/api/sessions/nothing", None, 404),
        ("DELETE", "/api/sessions", None, 405),
        ("PATCH", "/api/sessions/websocket:a/about", b'{"title": "x"}', 405),
        ("GET", "/api/sessions/websocket:a/fork", None, 405),
        ("POST", "/healthz", None, 405),
        ("GET", "/api/nothing", None, 404),
        ("PUT", "/api/two%0Alines", None, 404),
        ("GET", "/api/media/..%2f..%2fconfig.toml", None, 404),
        ("GET", "/api/media/" + "0" * 32, None, 404),
        ("POST", "/api/media", b"", 400),
    ],
)
async def test_bad_requests_are_refused_with_a_reason(
    tmp_path: Path, method: str, path: str, body: bytes | None, status: int
) -> None:
    async with house(tmp_path) as gateway:
        got, answer, _ = await call(gateway, method, path, data=body)

    assert got == status
    assert answer["error"]["detail"]
    assert gateway.port.histories.titles == {}


async def test_users_see_only_their_own_sessions(tmp_path: Path) -> None:
    async with house(tmp_path, **TOKENS) as gateway:
        async with gateway.client("/?token=a-secret") as alice:
            await alice.send(type="message", chat_id="diary", content="dear diary")
            await alice.expect("accepted")
        lines = gateway.port.histories.lines
        lines["websocket:diary"] = [line("user", "dear diary")]
        lines["telegram:1"] = [line("user", "dear owner")]
        seen = {}
        for token in ("own-secret", "a-secret", "b-secret"):
            _, listed, _ = await call(gateway, "GET", "/api/sessions", token)
            _, found, _ = await call(gateway, "GET", "/api/search?q=dear", token)
            read, _, _ = await call(gateway, "GET", "/api/sessions/websocket:diary/messages", token)
            seen[token] = (
                [one["key"] for one in listed["sessions"]],
                [one["key"] for one in found["hits"]],
                read,
            )
        renamed, _, _ = await call(
            gateway, "PATCH", "/api/sessions/websocket:diary", "b-secret", json={"title": "x"}
        )
        deleted, _, _ = await call(gateway, "DELETE", "/api/sessions/websocket:diary", "b-secret")
        nobody, _, headers = await call(gateway, "GET", "/api/sessions")

    both = ["websocket:diary", "telegram:1"]
    assert seen["own-secret"] == (both, both, 200)
    assert seen["a-secret"] == (both[:1], both[:1], 200)
    assert seen["b-secret"] == ([], [], 404)
    assert (renamed, deleted, nobody) == (404, 404, 401)
    assert headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("data", "claimed", "mime", "disposition"),
    [
        (PNG, "text/html", "image/png", "inline"),
        (b"<html><script>alert(1)</script>", "text/html", "text/plain", "attachment"),
        (b"<svg onload=alert(1)>", "image/svg+xml", "text/plain", "attachment"),
        (b"\0\1\2", "image/png", "application/octet-stream", "attachment"),
        (b"%PDF-1.7", "application/pdf", "application/pdf", "attachment"),
    ],
)
async def test_an_upload_is_sniffed_and_served_so_that_it_cannot_run(
    tmp_path: Path, data: bytes, claimed: str, mime: str, disposition: str
) -> None:
    async with house(tmp_path) as gateway:
        status, stored, _ = await call(
            gateway, "POST", "/api/media?name=a%22b.html", data=data, headers={"Content-Type": claimed}
        )
        _, body, headers = await call(gateway, "GET", stored["url"])

    assert status == 201
    assert stored["mime"] == mime
    assert body == data
    assert headers["Content-Type"].partition(";")[0] == mime
    assert headers["Content-Disposition"] == f"{disposition}; filename*=UTF-8''a%22b.html"
    assert headers["Content-Security-Policy"].startswith("sandbox")
    assert headers["X-Content-Type-Options"] == "nosniff"


async def test_a_deleted_chat_leaves_nothing_to_whoever_opens_it_next(tmp_path: Path) -> None:
    async with (
        house(tmp_path, **TOKENS) as gateway,
        gateway.client("/?token=a-secret") as alice,
        gateway.client("/?token=b-secret") as bob,
    ):
        await alice.send(type="message", chat_id="diary", content="dear diary")
        await alice.expect("accepted")
        epoch = alice.frames[0]["epoch"]
        gateway.port.histories.lines["websocket:diary"] = [line("user", "dear diary")]
        await call(gateway, "DELETE", "/api/sessions/websocket:diary", "a-secret")
        told = await alice.expect("session_updated")
        await bob.send(type="attach", chat_id="diary", epoch=epoch, after=0)
        attached = await bob.expect("attached")
        await bob.send(type="message", chat_id="diary", content="mine now")
        await bob.expect("accepted")
        heard = [*await bob.nothing_more(), *await alice.nothing_more()]

    assert (told["session"], told["scope"]) == ("websocket:diary", "deleted")
    assert attached["snapshot"] is True
    assert heard == []


async def test_files_belong_to_who_sent_them(tmp_path: Path) -> None:
    async with house(tmp_path, **TOKENS) as gateway:
        _, stored, _ = await call(gateway, "POST", "/api/media?name=a.png", "a-secret", data=PNG)
        statuses = [
            (await call(gateway, "GET", stored["url"], token))[0]
            for token in ("a-secret", "b-secret", "own-secret")
        ]
        async with gateway.client("/?token=b-secret") as bob:
            await bob.send(type="message", chat_id="b", content="mine?", media=[{"id": stored["id"]}])
            error = await bob.expect("error")
        async with gateway.client("/?token=a-secret") as alice:
            await alice.send(type="message", chat_id="a", content="mine!", media=[{"id": stored["id"]}])
            await alice.expect("accepted")
        message = await gateway.arrival()

    assert statuses == [200, 404, 200]
    assert error["code"] == "bad_media"
    assert message.media[0].name == "a.png"


async def test_too_large_an_upload_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        status, answer, _ = await call(
            gateway, "POST", "/api/media", data=io.BytesIO(bytes(20 * 1024 * 1024 + 1))
        )

    assert status == 413
    assert answer["error"]["code"] == "too_large"
    assert list(gateway.port.media.iterdir()) == []


async def test_listed_origins_get_cors_and_others_none(tmp_path: Path) -> None:
    async with house(tmp_path, allow_origins=["https://app.example"], token="own-secret") as gateway:
        status, _, headers = await call(
            gateway, "OPTIONS", "/api/sessions", headers={"Origin": "https://app.example"}
        )
        other, _, refused = await call(
            gateway, "OPTIONS", "/api/sessions", headers={"Origin": "https://evil.example"}
        )

    assert (status, headers["Access-Control-Allow-Origin"]) == (204, "https://app.example")
    assert other == 403
    assert "Access-Control-Allow-Origin" not in refused

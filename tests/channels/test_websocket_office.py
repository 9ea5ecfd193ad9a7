"""Beside the chats: what a chat is about, copies, exports, and the owner's decisions."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nanobot.channel import About, Applicant, DeadLetter, Inbound, Waiting
from nanobot.testing_port import FakeOffice, line
from tests.channels.test_websocket_rest import TOKENS, call
from tests.channels.websocket_client import house

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
KEY = "websocket:work"


async def test_attached_tells_what_waits_and_the_goal(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        waiting = Inbound("websocket", "owner:work:mine", "work", "and then?", sender="owner")
        gateway.port.queued[KEY] = [Waiting("row-1", waiting, NOW)]
        gateway.port.histories.abouts[KEY] = About(goal_state={"status": "active", "objective": "x"})
        async with gateway.client() as client:
            await client.expect("ready")
            await client.send(type="attach", chat_id="work")
            attached = await client.expect("attached")

    assert attached["goal_state"]["objective"] == "x"
    assert attached["waiting"] == [
        {
            "id": "mine",
            "message_id": "row-1",
            "text": "and then?",
            "sender": "owner",
            "timestamp": "2026-01-02T03:04:05.000+00:00",
        }
    ]


async def test_a_session_is_copied_up_to_a_message_and_belongs_to_who_copied_it(tmp_path: Path) -> None:
    async with house(tmp_path, **TOKENS) as gateway:
        lines = gateway.port.histories.lines
        lines["telegram:1"] = [
            line(role, f"{role} {turn}", turn) for turn in "ab" for role in ("user", "assistant")
        ]
        path = "/api/sessions/telegram:1/fork"
        status, whole, _ = await call(gateway, "POST", path, "own-secret")
        _, before, _ = await call(gateway, "POST", path, "own-secret", json={"before": "b"})
        _, through, _ = await call(gateway, "POST", path, "own-secret", json={"through": "a.0"})
        missing, _, _ = await call(gateway, "POST", path, "own-secret", json={"before": "nowhere"})
        others, _, _ = await call(gateway, "POST", path, "a-secret")
        mine, _, _ = await call(gateway, "GET", f"/api/sessions/{whole['key']}/messages", "own-secret")
        theirs, _, _ = await call(gateway, "GET", f"/api/sessions/{whole['key']}/messages", "a-secret")

    assert (status, missing, others, mine, theirs) == (201, 404, 404, 200, 404)
    assert [len(lines[one["key"]]) for one in (whole, before, through)] == [4, 2, 2]


async def test_a_session_is_exported_as_a_file(tmp_path: Path) -> None:
    async with house(tmp_path, **TOKENS) as gateway:
        gateway.port.histories.lines[KEY] = [line("user", "hello", "t")]
        gateway.port.histories.abouts[KEY] = About(model="openai/x", context_window=8, context_tokens=2)
        status, data, headers = await call(gateway, "GET", f"/api/sessions/{KEY}/export", "own-secret")
        hidden, _, _ = await call(gateway, "GET", f"/api/sessions/{KEY}/export", "a-secret")
        missing, _, _ = await call(gateway, "GET", "/api/sessions/websocket:none/export", "own-secret")
        _, about, _ = await call(gateway, "GET", f"/api/sessions/{KEY}/about", "own-secret")
        _, stands, _ = await call(gateway, "GET", f"/api/sessions/{KEY}/workspace", "own-secret")
        unseen, _, _ = await call(gateway, "GET", f"/api/sessions/{KEY}/workspace", "a-secret")

    assert (status, hidden, missing) == (200, 404, 404)
    assert msgspec.json.decode(data.splitlines()[0])["content"] == "hello"
    assert headers["Content-Disposition"] == "attachment; filename*=UTF-8''websocket-work.jsonl"
    assert (stands, unseen) == ({"key": KEY, "stage": "idle"}, 404)
    assert about == {"model": "openai/x", "context_window": 8, "context_tokens": 2}


async def test_the_owner_lets_people_in_and_sends_dead_letters_again(tmp_path: Path) -> None:
    async with house(tmp_path, **TOKENS) as gateway:
        office: FakeOffice = gateway.port.office
        office.people = [
            Applicant("telegram", sender, sender.title(), "CODE", "pending", NOW, NOW)
            for sender in ("ann", "bea")
        ]
        office.letters = [
            DeadLetter(number, "telegram:1", "text", "blocked", "dead", NOW) for number in (1, 2)
        ]
        _, asked, _ = await call(gateway, "GET", "/api/pairing", "own-secret")
        decision = {"channel": "telegram", "sender": "ann", "action": "approve"}
        _, people, _ = await call(gateway, "POST", "/api/pairing", "own-secret", json=decision)
        twice, _, _ = await call(gateway, "POST", "/api/pairing", "own-secret", json=decision)
        _, denied, _ = await call(
            gateway,
            "POST",
            "/api/pairing",
            "own-secret",
            json={**decision, "sender": "bea", "action": "deny"},
        )
        _, left, _ = await call(
            gateway, "POST", "/api/outbox", "own-secret", json={"id": 1, "action": "resend"}
        )
        _, none, _ = await call(
            gateway, "POST", "/api/outbox", "own-secret", json={"id": 2, "action": "drop"}
        )

    assert [one["name"] for one in asked["people"]] == ["Ann", "Bea"]
    assert [one["status"] for one in people["people"]] == ["approved", "pending"]
    assert twice == 404
    assert [one["sender"] for one in denied["people"]] == ["ann"]
    assert ([one["id"] for one in left["letters"]], none["letters"], office.resent) == ([2], [], [1])


@pytest.mark.parametrize("path", ["/api/pairing", "/api/outbox"])
@pytest.mark.parametrize(
    ("method", "token", "status"), [("GET", "a-secret", 404), ("POST", "a-secret", 404), ("GET", "", 401)]
)
async def test_only_the_owner_has_an_office(
    tmp_path: Path, path: str, method: str, token: str, status: int
) -> None:
    body: dict[str, Any] = {"json": {"id": 1, "action": "drop"}} if method == "POST" else {}
    async with house(tmp_path, **TOKENS) as gateway:
        got, _, _ = await call(gateway, method, path, token, **body)

    assert got == status


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/pairing", {"channel": "telegram", "sender": "x", "action": "marry"}),
        ("/api/outbox", {"id": "one", "action": "drop"}),
        ("/api/outbox", {"id": 1, "action": "burn"}),
        ("/api/sessions/websocket:work/fork", {"before": 5}),
    ],
)
async def test_decisions_that_make_no_sense_are_refused(
    tmp_path: Path, path: str, body: dict[str, Any]
) -> None:
    async with house(tmp_path) as gateway:
        got, _, _ = await call(gateway, "POST", path, json=body)

    assert got == 400

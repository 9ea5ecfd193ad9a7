"""Random frames and requests at a real server: every one is answered or refused, none breaks anything."""

import json
import os
import random
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.routing import Route

from channels.websocket.wire import BadFrame, check_chat_id, check_id, clean_text, read_frame
from nanobot.testing_port import line
from tests.channels.websocket_client import house
from tests.fuzz.mutate import odd

CASES = max(100, int(os.environ.get("NANOBOT_FUZZ", "10000")) // 15)
TYPES = (
    "message",
    "new_chat",
    "attach",
    "detach",
    "stop",
    "history",
    "ack",
    "ping",
    "auth",
    "watch",
    "nonsense",
    5,
)
FIELDS = (
    "chat_id", "content", "id", "turn_id", "media", "after", "epoch", "before", "limit", "seq", "token", "on", "text",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, 2**70, 1.5, "", "c", "a" * 65, "../x", "\0", "\u202e", "💥", [], [{}], {}, {"a": {"b": []}},
    [{"data_url": "data:image/png;base64,AAAA"}], [{"data_url": "data:,x"}], [{"id": "0" * 32}], [{"name": "x"}] * 5,
    "%00", "' OR 1=1 --", "{{ 7*7 }}", "a\nb", "\u2028",
)  # fmt: skip


@given(
    st.text() | st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists).map(json.dumps)
)
@settings(max_examples=300)
def test_any_text_is_a_frame_or_a_refusal(text: str) -> None:
    try:
        frame = read_frame(text)
    except BadFrame:
        return
    for check in (check_id, lambda one: clean_text(one.content), lambda one: check_chat_id(one.chat_id)):
        try:
            check(frame)  # type: ignore[arg-type]
        except (BadFrame, AttributeError):
            continue


def frame(chance: random.Random) -> str:
    fields = {name: chance.choice(ODD) for name in chance.sample(FIELDS, chance.randrange(5))}
    if chance.random() < 0.9:
        fields["type"] = chance.choice(TYPES)
    if chance.random() < 0.6:
        fields["chat_id"] = f"c{chance.randrange(5)}"
    text = json.dumps(fields)
    if chance.random() < 0.15:
        at = chance.randrange(len(text))
        text = text[:at] + chance.choice(('"', "}", "{", "\\", "", "[[[[")) + text[at + 1 :]
    return text


async def test_random_frames_break_no_connection_and_meet_no_fault_of_our_own(tmp_path: Path) -> None:
    chance = random.Random(1)
    async with house(tmp_path) as gateway, gateway.client() as client:
        for number in range(CASES):
            text = frame(chance)
            await client.socket.send(text)
            await client.send(type="ping", id=number)
            while (answer := await client.read())["event"] != "pong" or answer["id"] != number:
                assert answer.get("code") not in {"internal", "unavailable"}, f"{text} → {answer}"
        refused = [one["code"] for one in client.frames if one["event"] == "error"]
    assert len(set(refused)) >= 5, "the frames were too tame to prove anything"


async def test_random_requests_are_answered_without_a_fault_of_our_own(tmp_path: Path) -> None:
    chance = random.Random(2)
    words = ["", ".", "..", "%2e%2e", "api", "media", "sessions", "messages", "websocket:a", "a" * 600, "%00", "\u202e", "💥",
             "0" * 32, "config.toml", "..%2fconfig.toml", ";", "?", "'"]  # fmt: skip
    seen: set[int] = set()
    async with house(tmp_path) as gateway, gateway.http() as http:
        for _ in range(CASES):
            parts = [chance.choice(words) for _ in range(chance.randrange(4))]
            base = chance.choice(("/api/sessions", "/api/search", "/api/media", "/api/commands", "/api", "/"))
            path = "/".join([base.rstrip("/"), *[quote(part, safe="%.:;") for part in parts]]) or "/"
            path = f"/{path.lstrip('/')}"  # two slashes would name a host
            query = {
                name: str(chance.choice(ODD))
                for name in chance.sample(["q", "before", "limit", "name", "token"], 2)
            }
            method = chance.choice(("GET", "GET", "POST", "PATCH", "DELETE", "OPTIONS", "PUT", "HEAD"))
            headers = {
                "Content-Type": chance.choice(("", "application/json", "multipart/form-data", "x/y; z="))
            }
            body = chance.choice(
                (b"", b"{}", b'{"title": 5}', b"[" * 9000, chance.randbytes(50), b'{"title": "\\ud800"}')
            )
            async with http.request(method, path, params=query, headers=headers, data=body) as answer:
                text = await answer.read()
            seen.add(answer.status)
            assert answer.status < 500, f"{method} {path} {query} {body!r} → {answer.status} {text!r}"
            assert b"Traceback" not in text
            assert str(tmp_path).encode() not in text, "a path of this machine is in an answer"
    assert {200, 400, 404, 405} <= seen


async def test_odd_values_at_every_route_are_answered_without_a_fault_of_our_own(tmp_path: Path) -> None:
    """Every route there is, with keys that exist and ones that do not, and bodies near what they want."""
    chance = random.Random(3)
    near: list[dict[str, Any]] = [
        {
            "title": "x",
            "at": 1,
            "before": 2,
            "id": 1,
            "action": "resend",
            "code": "AAAA-AAAA",
            "channel": "slack",
        },
        {"sender": "U1", "admit": True, "chat_id": "c", "position": 0, "text": "x", "drop": True},
    ]
    keys = [
        "websocket:a",
        "websocket:nobody",
        "telegram:-100:topic:7",
        "a" * 600,
        "..",
        "%00",
        "sub:x",
        "control:websocket:a",
    ]
    seen: set[int] = set()
    async with house(tmp_path) as gateway, gateway.http() as http:
        gateway.port.histories.lines["websocket:a"] = [line("user", "hello")]
        routes = sorted(
            (method, one.path)
            for one in gateway.channel.routes()
            if isinstance(one, Route) and one.path.startswith("/api")
            for method in one.methods or ()
        )
        assert len(routes) > 15
        for method, path in routes:
            for _ in range(max(8, CASES // len(routes))):
                place = path.replace("{key:path}", quote(chance.choice(keys), safe="%:.")).replace(
                    "{id}", chance.choice(["0" * 32, "x", "%2e%2e", "1"])
                )
                query = {
                    name: str(chance.choice(ODD))
                    for name in chance.sample(["q", "before", "limit", "full", "at"], 2)
                }
                body = json.dumps(odd(chance.choice(near), chance)).encode()
                async with http.request(method, place, params=query, data=body) as answer:
                    text = await answer.read()
                seen.add(answer.status)
                assert answer.status < 500, f"{method} {place} {query} {body!r} → {answer.status} {text!r}"
                assert b"Traceback" not in text
                assert str(tmp_path).encode() not in text
    assert {200, 400, 404} <= seen, seen

"""Incidents of chat gateways at their web doors, tried on ours: the page, the socket, REST, Slack's and others' webhooks."""

import hashlib
import hmac
import re
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from starlette.routing import Route

from nanobot.content import bundled
from nanobot.testing_port import line
from tests.channels.slack_house import house as slack_house
from tests.channels.slack_house import mounted
from tests.channels.websocket_client import house
from tests.emulators.slack import SlackServer

TOKENS: dict[str, Any] = {"token": "own-secret", "users": {"alice": "a-secret", "bob": "b-secret"}}


# --- a page that is told by its address whom to trust (CVE-2026-25253) -----------------------------------------


def test_no_script_of_the_page_takes_an_address_or_a_token_from_the_url() -> None:
    scripts = {
        path.name: path.read_text() for path in (bundled("channels") / "websocket" / "web").glob("*.js")
    }
    assert scripts
    for name, text in scripts.items():
        code = re.sub(r"//.*", "", text)
        assert "URLSearchParams" not in code, name
        assert not re.search(r"location\.search\s*\)*\s*\.(?!length)", code), name
    sockets = [name for name, text in scripts.items() if "new WebSocket(" in text]
    assert sockets == ["ws.js"]
    assert 'new URL("ws", document.baseURI)' in scripts["ws.js"]


# --- doors without a lock (CVE-2026-25593, GHSA-943q-mwmv-hhvh) -------------------------------------------------


async def test_every_route_but_the_page_asks_for_a_token_and_none_writes_configuration_or_runs_tools(
    tmp_path: Path,
) -> None:
    async with house(tmp_path, **TOKENS) as gateway, gateway.http() as http:
        routes = [one for one in gateway.channel.routes() if isinstance(one, Route)]
        api = [one for one in routes if one.path.startswith("/api")]
        doors = {
            (method, one.path)
            for one in api
            for method in (one.methods or ())
            if method not in ("OPTIONS", "HEAD")
        }
        refused = set()
        for method, path in doors:
            place = path.replace("{key:path}", "websocket:a").replace("{id}", "0" * 32)
            async with http.request(method, place) as answer:
                if answer.status == 401:
                    refused.add((method, path))
    assert len(doors) > 5
    forbidden = [path for _, path in doors if re.search(r"config|exec|tool|shell|eval|plugin|install", path)]
    assert forbidden == [], "no door may write configuration or run anything"
    assert refused == doors


# --- rights that a client gives itself (GHSA-rqpp-rjj8-7wv8, CVE-2026-53821) -------------------------------------


async def test_what_a_client_says_about_its_rights_changes_nothing(tmp_path: Path) -> None:
    claims = {"principal": "owner", "scopes": ["operator.admin"], "role": "admin", "sender": "owner"}
    async with house(tmp_path, **TOKENS) as gateway:
        gateway.port.histories.lines["telegram:1"] = [line("user", "dear owner")]
        async with gateway.client("/?token=a-secret&principal=owner&role=admin&scopes=*") as client:
            by_query = (await client.expect("ready"))["principal"]
            await client.send(type="message", chat_id="c", content="x", **claims)
            await client.expect("accepted")
        async with gateway.client() as client:
            await client.send(type="auth", token="a-secret", **claims)
            by_frame = (await client.expect("ready"))["principal"]
        headers = {"Authorization": "Bearer a-secret", "X-Principal": "owner", "X-Forwarded-User": "owner"}
        async with (
            aiohttp.ClientSession(gateway.url, headers=headers) as http,
            http.get("/api/sessions", params={"principal": "owner"}) as answer,
        ):
            listed = (await answer.json())["sessions"]
    assert (by_query, by_frame) == ("alice", "alice")
    assert [one.sender for one in gateway.port.accepted] == ["alice"]
    assert [one["key"] for one in listed if one["key"].startswith("telegram")] == []


# --- being near is no right (CVE-2026-32896, CVE-2026-58122) -----------------------------------------------------


@pytest.mark.parametrize("header", ["X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Forwarded-Host"])
async def test_headers_of_proxies_make_nobody_local_or_known(tmp_path: Path, header: str) -> None:
    value = "for=127.0.0.1;host=localhost" if header == "Forwarded" else "127.0.0.1"
    async with house(tmp_path, **TOKENS) as gateway, gateway.http() as http:
        async with http.get("/api/sessions", headers={header: value}) as answer:
            without_token = answer.status
        async with http.get("/api/sessions", headers={header: value, "Host": "evil.example"}) as answer:
            foreign_host = answer.status
    assert (without_token, foreign_host) == (401, 403)


# --- tokens that outlive their change (GHSA-m8wm-r5vq-qjpg) ------------------------------------------------------


async def test_a_changed_token_ends_the_old_one_and_gives_nobody_more(tmp_path: Path) -> None:
    changed = {**TOKENS, "users": {"alice": "a-new-secret"}}
    async with house(tmp_path, **changed) as gateway:
        seen = {}
        for token in ("a-secret", "b-secret", "a-new-secret", ""):
            async with gateway.http(token) as http, http.get("/api/sessions") as answer:
                seen[token] = answer.status
    assert seen == {"a-secret": 401, "b-secret": 401, "a-new-secret": 200, "": 401}


# --- files by name (GHSA-mr34-9552-qr95, CVE-2025-48957) ---------------------------------------------------------


@pytest.mark.parametrize(
    "id",
    [
        "../../config.toml",
        "/etc/passwd",
        "..%2f..%2fconfig.toml",
        "file:///etc/passwd",
        "\\\\host\\share",
        ".",
        "",
    ],
)
async def test_a_message_can_name_no_file_of_this_machine(tmp_path: Path, id: str) -> None:
    (tmp_path / "config.toml").write_text("secret")
    async with house(tmp_path) as gateway, gateway.client() as client:
        await client.send(type="message", chat_id="c", content="look", media=[{"id": id}])
        error = await client.expect("error")
    assert error["code"] in {"bad_media", "bad_frame"}
    assert gateway.port.accepted == []


async def test_an_upload_of_another_person_cannot_be_sent_as_ones_own(tmp_path: Path) -> None:
    async with house(tmp_path, **TOKENS) as gateway:
        async with (
            gateway.http("a-secret") as http,
            http.post("/api/media?name=a.txt", data=b"private") as answer,
        ):
            file_id = (await answer.json())["id"]
        async with gateway.client("/?token=b-secret") as bob:
            await bob.send(type="message", chat_id="mine", content="show me", media=[{"id": file_id}])
            error = await bob.expect("error")
    assert error["code"] == "bad_media"


# --- a webhook that believes anybody (GHSA-xh72-v6v9-mwhc, CVE-2026-26316) ---------------------------------------


async def test_a_slack_event_without_a_fresh_right_signature_is_refused_and_changes_nothing(
    tmp_path: Path,
) -> None:
    body = (
        b'{"type":"event_callback","team_id":"T1","api_app_id":"A1","event_id":"Ev1","event":{"type":"message",'
        b'"channel":"DU1","channel_type":"im","user":"U1","text":"let me in","ts":"1.1","event_ts":"1.1"}}'
    )
    now = str(int(time.time()))
    forged: list[dict[str, str]] = [
        {},
        {"X-Slack-Request-Timestamp": now},
        {"X-Slack-Request-Timestamp": now, "X-Slack-Signature": ""},
        {"X-Slack-Request-Timestamp": now, "X-Slack-Signature": "v0=" + "0" * 64},
        {"X-Slack-Request-Timestamp": now, "X-Slack-Signature": sign("", now, body)},
        {"X-Slack-Request-Timestamp": "1", "X-Slack-Signature": sign("shh", "1", body)},
        {"X-Slack-Request-Timestamp": now, "X-Slack-Signature": sign("shh", now, body + b" ")},
    ]
    async with (
        SlackServer() as slack,
        slack_house(tmp_path, slack, app_token="", signing_secret="shh") as gateway,
        mounted(gateway) as url,
        aiohttp.ClientSession() as http,
    ):
        statuses = []
        for headers in forged:
            json = {"Content-Type": "application/json", **headers}
            async with http.post(url, data=body, headers=json) as answer:
                statuses.append(answer.status)
        nothing = list(gateway.port.accepted)
        right = {"X-Slack-Request-Timestamp": now, "X-Slack-Signature": sign("shh", now, body)}
        async with http.post(url, data=body, headers={"Content-Type": "application/json", **right}) as answer:
            genuine = answer.status
        await gateway.arrival()
    assert all(400 <= status < 500 for status in statuses), statuses
    assert nothing == []
    assert genuine == 200


def sign(secret: str, timestamp: str, body: bytes) -> str:
    base = b":".join((b"v0", timestamp.encode(), body))
    return "v0=" + hmac.new(secret.encode(), base, hashlib.sha256).hexdigest()

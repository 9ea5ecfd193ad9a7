"""Incidents of other chat gateways, each tried on a real gateway process over its real doors.

The numbers are those of the table in docs/security.md. What has tests of its own elsewhere is named there.
"""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
import websockets
from starlette.routing import Route

from channels.websocket import create
from nanobot.security import sandbox
from nanobot.testing_port import FakePort
from tests.security.house import (
    ALICE,
    BOB,
    CANARY,
    OWNER,
    Gateway,
    command,
    configured,
    model,
    started,
    tokens,
)


@pytest.fixture(scope="module")
def llm() -> Iterator[str]:
    with model() as url:
        yield url


@pytest.fixture(scope="module")
def gateway(llm: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    workspace = tmp_path_factory.mktemp("house") / "workspace"
    configured(workspace, llm, page=tokens())
    with started(workspace) as running:
        yield running


@pytest.fixture(scope="module")
def near(llm: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway without any token, as on somebody's own machine."""
    workspace = tmp_path_factory.mktemp("open") / "workspace"
    configured(workspace, llm, page="")
    with started(workspace) as running:
        yield running


# --- 1: an endpoint and a token from the page's address (CVE-2026-25253) ---------------------------------------


async def test_1_a_link_cannot_tell_the_page_where_to_connect(gateway: Gateway) -> None:
    async with gateway.http() as http:
        async with http.get("/") as answer:
            plain, policy = await answer.read(), answer.headers["Content-Security-Policy"]
        async with http.get("/?gatewayUrl=ws://evil.example&token=x#gatewayUrl=ws://evil.example") as answer:
            told = await answer.read()
    assert told == plain, "what a link says is in no answer"
    connect = next(part for part in policy.split(";") if part.strip().startswith("connect-src"))
    assert connect.split()[1:] == ["'self'", gateway.url.replace("http", "ws", 1)]


# --- 2: any web site at the local socket (CVE-2026-35589, CVE-2026-2577) ----------------------------------------

FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost.evil.example"},
    {"Origin": "http://127.0.0.1:1"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Host": "evil.example", "Origin": "http://evil.example"},
    {"Host": "evil.example"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=lambda one: ",".join(one.values()))
async def test_2_a_web_site_reaches_no_door_of_this_machine_by_a_browser(
    near: Gateway, headers: dict[str, str]
) -> None:
    async with near.http() as http:
        for method, path in (
            ("GET", "/api/sessions"),
            ("POST", "/api/media?name=x"),
            ("DELETE", "/api/sessions/x"),
        ):
            async with http.request(method, path, headers=headers, data=b"x") as answer:
                assert answer.status == 403, (method, path)
                assert "Access-Control-Allow-Origin" not in answer.headers
        upgrade = {**headers, "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
        async with http.get(
            "/ws", headers={**upgrade, "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
        ) as answer:
            assert answer.status == 403
        for path in ("/metrics", "/healthz", "/readyz"):
            async with http.get(path, headers=headers) as answer:
                assert answer.status == (403 if headers.get("Host") == "evil.example" else 200)
                assert "Access-Control-Allow-Origin" not in answer.headers


def test_2_it_listens_on_this_machine_alone_and_on_others_only_with_a_token(
    near: Gateway, tmp_path: Path
) -> None:
    port = int(near.url.rpartition(":")[2])
    own = {
        one[4][0] for one in socket.getaddrinfo(socket.gethostname(), None) if "127." not in str(one[4][0])
    }
    for address in own:
        with socket.socket(socket.AF_INET6 if ":" in str(address) else socket.AF_INET) as probe:
            assert probe.connect_ex((str(address), port)) != 0
    configured(tmp_path / "w", "http://127.0.0.1:1", page="")
    refused = command(tmp_path / "w", "gateway", NANOBOT_HTTP__HOST="0.0.0.0")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "token" in refused.stderr


# --- 3: configuration over the net (CVE-2026-25593) --------------------------------------------------------------


async def test_3_no_door_and_no_tool_writes_the_configuration(gateway: Gateway) -> None:
    config = gateway.workspace / "config.toml"
    before = config.read_bytes()
    evil = "[security]\\nallow_unsandboxed = true"
    async with gateway.http(OWNER) as http:
        for method in ("POST", "PUT", "PATCH"):
            for path in ("/config", "/api/config", "/api/config/apply", "/api/settings", "/config.toml"):
                async with http.request(method, path, json={"cliPath": "/bin/sh"}) as answer:
                    assert answer.status in {404, 405}, (method, path)
    for tool in ("write_file", "edit_file"):
        call = {"path": "config.toml", "content": evil, "old": "echo", "new": "evil"}
        assert "result:" in await gateway.ask(OWNER, f"TOOL {tool} {json.dumps(call)}\nplease", f"c3-{tool}")
    if sandbox.usable():
        await gateway.ask(
            OWNER, 'TOOL exec {"command": "echo x >> config.toml; rm config.toml"}\nplease', "c3-exec"
        )
    assert config.read_bytes() == before


# --- 4: rights that clients give themselves (GHSA-rqpp-rjj8-7wv8, CVE-2026-53821) ---------------------------------


async def test_4_what_a_client_claims_gives_no_rights(gateway: Gateway) -> None:
    await gateway.ask(OWNER, "mine", "c4-owner")
    claims = {
        "principal": "owner",
        "role": "admin",
        "scopes": ["operator.admin"],
        "sender": "owner",
        "is_owner": True,
    }
    async with gateway.socket(ALICE) as alice:
        assert (await alice.until("ready"))["principal"] == "alice"
        await alice.send(type="auth", token=ALICE, **claims)
        await alice.send(type="attach", chat_id="c4-owner", **claims)
        assert {one["event"] for one in await alice.silence()} == {"error"}
        assert "Only the owner" in await alice.ask("c4-alice", "/pairing list")


# --- 5 and 6: tokens that outlive their end, and ones that grow (GHSA-m8wm-r5vq-qjpg, GHSA-whf9-3hcx-gq54) -----------


async def test_5_a_revoked_token_ends_with_its_live_sockets_and_opens_nothing_again(
    llm: str, tmp_path: Path
) -> None:
    workspace = tmp_path / "workspace"
    configured(workspace, llm, page=tokens())
    with started(workspace) as first:
        async with first.socket(ALICE) as alice:
            await alice.until("ready")
            configured(workspace, llm, page=tokens(alice="another-token-for-alice"))
            first.process.terminate()
            with pytest.raises(websockets.ConnectionClosed):
                await alice.until("never")
    with started(workspace) as second:
        async with second.http(ALICE) as http, http.get("/api/sessions") as answer:
            assert answer.status == 401
        with pytest.raises((websockets.InvalidStatus, websockets.ConnectionClosed)):
            async with second.socket(ALICE) as alice:
                await alice.until("ready")
        async with second.http("another-token-for-alice") as http, http.get("/api/sessions") as answer:
            assert answer.status == 200


async def test_6_a_new_token_gives_its_person_no_more_than_the_old_one(llm: str, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    configured(workspace, llm, page=tokens())
    with started(workspace) as first:
        await first.ask(OWNER, "mine", "c6-owner")
        await first.ask(ALICE, "hers", "c6-alice")
    configured(workspace, llm, page=tokens(alice="another-token-for-alice"))
    with started(workspace) as second:
        async with second.socket("another-token-for-alice") as alice:
            assert (await alice.until("ready"))["principal"] == "alice"
            assert "Only the owner" in await alice.ask("c6-alice", "/pairing list")
        async with second.http("another-token-for-alice") as http:
            async with http.get("/api/sessions") as answer:
                keys = [one["key"] for one in (await answer.json())["sessions"]]
            async with http.get("/metrics") as answer:
                assert answer.status == 401, "the owner's alone"
    assert keys == ["websocket:c6-alice"]


# --- 7: webhooks that fail open, trust in loopback (GHSA-xh72-v6v9-mwhc, CVE-2026-26316, CVE-2026-58122) ----------


@pytest.mark.parametrize(
    ("more", "names"),
    [
        (
            '[channels.telegram]\nenabled = true\ntoken = "1:a"\nwebhook_url = "https://x.example"\n',
            "webhook_secret",
        ),
        (
            '[channels.telegram]\nenabled = true\ntoken = "1:a"\nwebhook_url = "https://x.example"\nwebhook_secret = ""\n',
            "webhook_secret",
        ),
        ('[channels.slack]\nenabled = true\nbot_token = "xoxb-1"\n', "app_token"),
        ('[channels.slack]\nenabled = true\nbot_token = "xoxb-1"\nsigning_secret = ""\n', "app_token"),
    ],
)
def test_7_a_webhook_without_its_secret_does_not_come_up(
    llm: str, tmp_path: Path, more: str, names: str
) -> None:
    workspace = tmp_path / "workspace"
    configured(workspace, llm, page="", more=more)
    refused = command(workspace, "gateway")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"{names} is not set" in refused.stderr


async def test_7_headers_of_proxies_are_believed_by_nobody(gateway: Gateway) -> None:
    near = {
        "X-Forwarded-For": "127.0.0.1",
        "X-Real-IP": "127.0.0.1",
        "Forwarded": "for=127.0.0.1",
        "X-Forwarded-Host": "localhost",
    }
    async with gateway.http() as http:
        for path in ("/api/sessions", "/api/commands", "/metrics"):
            async with http.get(path, headers=near) as answer:
                assert answer.status == 401


# --- 8: ways around lists of allowed commands (CVE-2026-28363, -31992, -27566, -28460, -32973, -32016) ------------

ESCAPES = [
    "env -S 'cat {secret}'",
    "env --split-string='cat {secret}'",
    "git --no-pager --exec-path=/bin -c alias.x='!cat {secret}' x",
    "tar --checkpoint=1 --checkpoint-action=exec='cat {secret}' -cf /dev/null /etc/hostname",
    "ca\\\nt {secret}",
    "c''at {secret}",
    "/bin/c?t {secret}",
    "/???/cat {secret}",
    "ln -s {secret} here; cat here",
    "cp /bin/cat ls; ./ls {secret}",
    "$(printf cat) {secret}",
    "cat /proc/1/root{secret}",
    "cat /proc/self/root{secret}",
    "for p in /proc/[0-9]*; do cat $p/environ $p/root{secret}; done",
    "python3 -c 'print(open(\"{secret}\").read())'",
    "find / -name config.toml -exec cat {{}} +",
    "mount --bind / /mnt; unshare -r cat {secret}; nsenter -t 1 -a cat {secret}",
    "echo evil > {outside}; cp /etc/hostname {outside}; ln -sf {outside} .nanobot",
]


@pytest.mark.skipif(not sandbox.usable(), reason="bubblewrap does not work here")
async def test_8_no_trick_of_the_shell_leads_out_of_the_sandbox(gateway: Gateway) -> None:
    outside = gateway.workspace.parent / "outside.txt"
    secret = gateway.workspace.parent / "secret.txt"
    secret.write_text(f"{CANARY}-outside")
    outside.write_text("untouched")
    state = {path.name for path in (gateway.workspace / ".nanobot").iterdir()}
    async with gateway.socket(OWNER) as owner:
        for number, escape in enumerate(ESCAPES):
            line = escape.format(secret=secret, outside=outside)
            answer = await owner.ask(f"c8-{number}", f"TOOL exec {json.dumps({'command': line})}\nplease")
            said = answer.replace(line, "")
            assert "result:" in answer
            assert CANARY not in said, escape
            assert OWNER not in said, escape
    assert outside.read_text() == "untouched"
    assert {path.name for path in (gateway.workspace / ".nanobot").iterdir()} >= state


# --- 9: requests to where only we can reach (CVE-2026-26322, -43573, -49138) --------------------------------------

PRIVATE = [
    "http://127.0.0.1:{port}/healthz",
    "http://localhost:{port}/healthz",
    "http://LOCALHOST.:{port}/healthz",
    "http://127.1:{port}/healthz",
    "http://0:{port}/healthz",
    "http://0x7f000001:{port}/healthz",
    "http://2130706433:{port}/healthz",
    "http://0177.0.0.1:{port}/healthz",
    "http://[::1]:{port}/healthz",
    "http://[::ffff:127.0.0.1]:{port}/healthz",
    "http://[::ffff:7f00:1]:{port}/healthz",
    "http://[64:ff9b::7f00:1]:{port}/healthz",
    "http://[2002:7f00:1::]:{port}/healthz",
    "http://[fe80::1%25lo]:{port}/healthz",
    "http://①②⑦.⓪.⓪.①:{port}/healthz",
    "http://169.254.169.254/latest/meta-data/",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://100.64.0.1/",
    "http://10.0.0.1/",
    "http://192.168.1.1/",
    "http://user@127.0.0.1:{port}/healthz",
    "http://127.0.0.1:{port}@8.8.8.8/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:{port}/_GET",
]


async def test_9_no_spelling_of_a_private_place_is_fetched(near: Gateway) -> None:
    port = near.url.rpartition(":")[2]
    async with near.socket("") as owner:
        for number, one in enumerate(PRIVATE):
            call = json.dumps({"url": one.format(port=port)})
            answer = await owner.ask(f"c9-{number}", f"TOOL web_fetch {call}\nplease")
            assert "result:" in answer
            assert '"status"' not in answer, one
            assert "root:" not in answer, one
            assert not answer.startswith("result: http"), one


# --- 10: files by path (GHSA-mr34-9552-qr95, CVE-2025-48957) ------------------------------------------------------

PATHS = [
    "../config.toml",
    "..%2fconfig.toml",
    "%2e%2e%2f%2e%2e%2fconfig.toml",
    "..%5cconfig.toml",
    "%00",
    ".",
    "/etc/passwd",
    "..%c0%af..",
    "a" * 32,
]


async def test_10_no_door_gives_a_file_by_a_path(gateway: Gateway) -> None:
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    for place in ("/api/media/", "/", "/assets/", "/vendor/", "/api/sessions/"):
        for path in PATHS:
            # A raw request: clients tidy paths up before they send them.
            with socket.create_connection((host, int(port)), 10) as raw:
                head = f"GET {place}{path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {OWNER}\r\nConnection: close\r\n\r\n"
                raw.sendall(head.encode())
                answer = b""
                while part := raw.recv(65_536):
                    answer += part
            assert OWNER.encode() not in answer, (place, path)
            assert b"root:" not in answer, (place, path)
            assert b" 500 " not in answer.split(b"\r\n", 1)[0], (place, path)


async def test_10_links_in_the_workspace_lead_no_tool_to_the_state(gateway: Gateway) -> None:
    (gateway.workspace / "innocent").symlink_to(".nanobot", target_is_directory=True)
    (gateway.workspace / "notes.txt").symlink_to("config.toml")
    for tool, call in (
        ("read_file", {"path": "innocent/gateway.lock"}),
        ("read_file", {"path": "notes.txt"}),
        ("grep", {"pattern": "token", "path": "."}),
        ("list_dir", {"path": "innocent"}),
        ("message", {"text": "x", "files": ["notes.txt"]}),
    ):
        answer = await gateway.ask(OWNER, f"TOOL {tool} {json.dumps(call)}\nplease", f"c10-{tool}")
        assert OWNER not in answer, tool
        assert "gateway.db" not in answer, tool


# --- 11: tools over HTTP (GHSA-943q-mwmv-hhvh) --------------------------------------------------------------------


async def test_11_no_door_but_a_chat_runs_a_tool(gateway: Gateway) -> None:
    async with gateway.http(OWNER) as http:
        for path in (
            "/tools/invoke",
            "/api/tools",
            "/api/tools/exec",
            "/api/exec",
            "/rpc",
            "/api/sessions/x/run",
            "/mcp",
        ):
            async with http.post(path, json={"tool": "exec", "arguments": {"command": "id"}}) as answer:
                assert answer.status in {404, 405}, path
    async with gateway.socket(OWNER) as owner:
        for kind in ("tool", "exec", "rpc", "config", "spawn"):
            await owner.send(type=kind, chat_id="c11", name="exec", arguments={"command": "id"})
            assert (await owner.until("error"))["code"]


# --- 12: rights of a session instead of a sender (GHSA-2gvc-4f3c-2855, CVE-2026-18773) ----------------------------


async def test_12_a_user_reads_and_steers_nothing_of_another_by_any_route_or_frame(
    gateway: Gateway, tmp_path: Path
) -> None:
    await gateway.ask(ALICE, f"{CANARY} of alice", "c12-alice")
    there, nowhere = "websocket:c12-alice", "websocket:c12-nowhere"
    async with gateway.http(BOB) as http:
        channel = create(FakePort(tmp_path, name="websocket"))
        routes = {
            (method, one.path.replace("{key:path}", "{}").replace("{id}", "x"))
            for one in channel.routes()
            if isinstance(one, Route) and "{key:path}" in one.path
            for method in (one.methods or set()) - {"OPTIONS", "HEAD"}
        }
        assert len(routes) > 8
        for method, route in routes:
            seen = []
            for key in (there, nowhere):
                async with http.request(
                    method, route.format(quote(key, safe=":")), json={"title": "x"}
                ) as answer:
                    seen.append((answer.status, (await answer.text()).replace(key, "KEY")))
            assert seen[0] == seen[1], f"{method} {route} tells a chat of another from one that is not there"
            assert seen[0][0] >= 400, (method, route)
        for path in (f"/api/search?q={CANARY}", "/api/sessions"):
            async with http.get(path) as answer:
                assert CANARY not in await answer.text()
        for path in ("/api/pairing", "/api/outbox"):
            async with http.get(path) as answer:
                assert answer.status in {403, 404}, path
            async with http.post(path, json={"id": 1, "action": "resend", "code": "x"}) as answer:
                assert answer.status in {403, 404}, path
    async with gateway.socket(BOB) as bob:
        await bob.until("ready")
        frames: list[dict[str, Any]] = [
            {"type": "attach"}, {"type": "history"}, {"type": "stop"}, {"type": "message", "content": "/history 5"},
            {"type": "message", "content": "hello", "id": "x1"}, {"type": "ack", "seq": 1}, {"type": "detach"},
        ]  # fmt: skip
        for frame in frames:
            await bob.send(chat_id="c12-alice", **frame)
        came = await bob.silence()
        assert CANARY not in json.dumps(came)
        assert not [one for one in came if one["event"] in {"attached", "history", "accepted", "message"}]
    async with gateway.socket(BOB) as bob:
        for order in ("/pairing list", "/pairing approve AAAA-AAAA"):
            assert "Only the owner" in await bob.ask("c12-bob", order)
        assert CANARY not in await bob.ask("c12-bob", "/sessions")
    async with gateway.http(ALICE) as http, http.get(f"/api/sessions/{there}/messages") as answer:
        assert (await answer.json())["messages"][0]["content"] == f"{CANARY} of alice"


async def test_12_what_a_user_delegated_uploaded_or_was_told_is_nobody_elses(gateway: Gateway) -> None:
    task = json.dumps({"task": f"{CANARY} for alice's helper"})
    await gateway.ask(ALICE, f"TOOL delegate {task}", "c12-delegates")
    async with gateway.http(ALICE) as http:
        async with http.get("/api/sessions/websocket:c12-delegates/children") as answer:
            [child] = (await answer.json())["children"]
        async with http.post("/api/media?name=a.txt", data=CANARY.encode()) as answer:
            file = (await answer.json())["url"]
        steps = f"/api/sessions/websocket:c12-delegates/children/{child['id']}/trajectory"
        async with http.get(steps) as answer:
            assert CANARY in await answer.text()
    await gateway.ask(BOB, "hello", "c12-bobs")
    async with gateway.http(BOB) as http:
        own = f"/api/sessions/websocket:c12-bobs/children/{child['id']}"
        keys = [child["session"], child["session"].replace("sub:", "sub%3A")]
        for path in (steps, f"{own}/trajectory", file, *(f"/api/sessions/{key}/messages" for key in keys)):
            async with http.get(path) as answer:
                assert (answer.status, CANARY in await answer.text()) == (404, False), path
        async with http.post(f"{own}/end") as answer:
            assert answer.status == 404
    for tool in ("check_session", "peek_session", "get_trajectory", "converse", "end_session"):
        call = {"session_id": child["id"], **({"message": "tell me"} if tool == "converse" else {})}
        told = await gateway.ask(BOB, f"TOOL {tool} {json.dumps(call)}\nplease", "c12-bobs")
        assert CANARY not in told, tool
        assert "false" in told, tool
    for text in (
        "TOOL list_sessions {}\nplease",
        "/tasks",
        f"/tasks {child['id']}",
        f"/tasks end {child['id']}",
    ):
        assert CANARY not in await gateway.ask(BOB, text, "c12-bobs")


# --- 15: keys in the environment of tools, in logs and errors (CVE-2026-22174, CVE-2026-9352) ---------------------


async def test_15_no_secret_is_in_any_log_error_answer_or_command_when_everything_fails(
    llm: str, tmp_path: Path
) -> None:
    workspace = tmp_path / "workspace"
    dead = "http://127.0.0.1:9"  # nothing listens on the discard port
    slack, telegram = f"xoxb-{CANARY}-slack", f"12345678:{CANARY}-telegram-aaaaaaaaaaaaaaaaaaaa"
    more = (
        f'[channels.slack]\nenabled = true\nbot_token = "{slack}"\napp_token = "xapp-{CANARY}-app"\napi_url = "{dead}/api/"\n'
        f'[channels.telegram]\nenabled = true\ntoken = "{telegram}"\napi_url = "{dead}"\n'
    )
    configured(workspace, llm, page=f'token = "{CANARY}-owner"\n', more=more)
    told = []
    with started(workspace) as running:
        for number, text in enumerate(
            ("STATUS 401\nx", "STATUS 500 1\nx", "CUT 1\nx", "OVERFLOW\nx", 'TOOL exec {"command": "env; cat /proc/self/environ"}\nx',
             'TOOL web_fetch {"url": "http://127.0.0.1:9/?token=abcdefgh12345"}\nx', "TOOL nothing {}\nx", "TOOL exec {broken\nx")
        ):  # fmt: skip
            told.append(await running.ask(f"{CANARY}-owner", text, f"c15-{number}"))
        async with aiohttp.ClientSession(running.url) as http:
            for path in (
                "/healthz",
                f"/api/sessions?token={CANARY}-wrong",
                "/api/nothing",
                "/ws",
                f"/{CANARY}-x",
            ):
                async with http.get(path) as answer:
                    told.append((await answer.text()).replace(f"/{CANARY}-x", ""))
            headers = {"Authorization": f"Bearer {CANARY}-owner"}
            async with http.get("/healthz", headers=headers) as answer:
                told.append(await answer.text())
        log = running.log()
    told.append(command(workspace, "doctor").stdout)
    for bad in ("api_key = 5", "unknown_key = 1", f'level = "{CANARY}'):
        (workspace / "config.toml").write_text((workspace / "config.toml").read_text() + f"\n{bad}\n")
        failed = command(workspace, "gateway")
        assert failed.returncode == 2
        told.append(failed.stderr.replace(f'level = "{CANARY}', ""))
    assert "slack" in log
    assert "telegram" in log
    for secret in (
        f"{CANARY}-owner",
        f"{CANARY}-model",
        f"{CANARY}-environment",
        slack,
        telegram,
        f"xapp-{CANARY}-app",
    ):
        assert secret not in log, f"{secret} in the log"
        assert not [one for one in told if secret in one], f"{secret} was told"
    assert f"{CANARY}-wrong" not in log, "a query token is in the log"


# --- 16: the first visitor becomes the owner (CVE-2026-49973) -----------------------------------------------------


async def test_16_there_is_no_door_at_which_somebody_makes_himself_the_owner(gateway: Gateway) -> None:
    async with gateway.http() as http:
        for path in (
            "/setup",
            "/api/setup",
            "/api/register",
            "/api/login",
            "/api/password",
            "/api/passkey",
            "/onboard",
            "/api/token",
        ):
            for method in ("GET", "POST", "PUT"):
                async with http.request(method, path, json={"password": "mine", "token": "mine"}) as answer:
                    assert answer.status in {401, 404, 405}, (method, path)
        async with http.get("/api/sessions", headers={"Authorization": "Bearer mine"}) as answer:
            assert answer.status == 401

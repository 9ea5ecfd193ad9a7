"""A gateway process whose workspace has something for every request of docs/openapi.json, and a client for its REST."""

import asyncio
import http.client
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from nanobot.clock import SystemClock
from nanobot.messages import Address, Line, Outbound
from nanobot.store import Pairing, PairingStatus
from nanobot.stores.sessions import SessionManager
from nanobot.stores.sqlite import SqliteStore
from tests.security import house

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.json"
SPARE = 12  # of what a request uses up
TALK = 'REASON a thought\nTOOL list_dir {"path": "."}\nlook around'
GOAL = {
    "status": "paused",
    "objective": "proofread",
    "id": "g",
    "started_at": "2026-01-02T03:04:05+00:00",
    "percent": 5,
}


class RestHouse:
    """`known` has, for an operation's id, parameters and fields of the body that mean something which is there."""

    def __init__(self, gateway: house.Gateway) -> None:
        self.gateway = gateway
        self.known: dict[str, list[dict[str, Any]]] = {}
        self._address = gateway.url.removeprefix("http://")

    def send(
        self, method: str, target: str, headers: dict[str, str], body: bytes | None = None, length: int = 0
    ) -> tuple[int, str, bytes]:
        """Status, media type and body of the answer. `length`: what the request says of a body that it has not."""
        with closing(http.client.HTTPConnection(self._address, timeout=house.SECONDS)) as connection:
            connection.putrequest(method, target, skip_host="Host" in headers)
            for name, value in headers.items():
                connection.putheader(name, value)
            if body is not None or length:
                connection.putheader("Content-Length", str(length or len(body or b"")))
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.headers.get_content_type(), answer.read()

    def get(self, target: str) -> Any:
        status, _, data = self.send("GET", target, {"Authorization": f"Bearer {house.OWNER}"})
        assert status == 200, data
        return json.loads(data)


@contextmanager
def started(folder: Path, model_url: str, *, tokens: bool = True) -> Iterator[RestHouse]:
    workspace = folder / ("closed" if tokens else "open")
    house.configured(workspace, model_url, page=house.tokens() if tokens else "", more=HOUSE)
    asyncio.run(seeded(workspace))
    with house.started(workspace) as gateway:
        rest = RestHouse(gateway)
        if tokens:
            asyncio.run(inhabited(rest))
        try:
            yield rest
        finally:
            gateway.process.kill()  # asked politely it would wait for the sub-sessions


HOUSE = "[delegation]\nmax_children = 20\n[security]\nallow_unsandboxed = true\n"


async def seeded(workspace: Path) -> None:
    """What only other platforms bring about: histories, people who ask, and replies that did not arrive."""
    clock = SystemClock()
    (workspace / "tasks").mkdir()
    for name in ("TODO.md", "tasks/one.md"):
        (workspace / name).write_text("Owner: ann\n- [ ] proofread\n")
    histories = SessionManager(workspace)
    for number in range(SPARE):
        said = [Line(role=role, content=f"{role} {number}", turn="t") for role in ("user", "assistant")]
        await histories.append(f"telegram:{number}", said)
    await histories.update("telegram:0", {"goal_state": GOAL, "title": "A goal"})
    await histories.close()
    store = SqliteStore(workspace / ".nanobot", clock)
    await store.open()
    for number in range(SPARE):
        now, name = clock.now(), f"u{number}"
        status: PairingStatus = "approved" if number % 3 == 0 else "pending"
        later = now + timedelta(hours=1)
        await store.pairings.put(Pairing("telegram", name, name, name, f"CODE{number}", status, now, later))
        made = await store.outbox.add(Outbound(f"t{number}", 0, Address("telegram", "1"), "hello"))
        assert made is not None
        await store.outbox.dead(made.id, "blocked")
    await store.close()


async def inhabited(rest: RestHouse) -> None:
    """What a gateway brings about itself: turns, files, sub-sessions; and the names of all of it."""
    gateway = rest.gateway
    async with gateway.http(house.OWNER) as http, http.post("/api/media?name=a.txt", data=b"hello") as answer:
        media = (await answer.json())["id"]
    async with gateway.socket(house.OWNER) as socket:
        await socket.send(type="message", chat_id="work", content=TALK, media=[{"id": media}], id="first")
        await socket.until("turn_end")
        for number in range(SPARE // 2):
            task = {"task": f"DELAY 3600\n{number}" if number else TALK, "mode": "async"}
            await socket.ask("work", f"TOOL delegate {json.dumps(task)}\ndelegate {number}")
    async with gateway.socket(house.ALICE) as socket:
        await socket.ask("diary", "dear diary")
    work = {"key": "websocket:work"}
    turns = {line["turn"] for line in rest.get(f"/api/sessions/{work['key']}/messages")["messages"]}
    children = rest.get(f"/api/sessions/{work['key']}/children")["children"]
    tasks = [{**work, "id": child["full_id"]} for child in children]
    sessions = [work, {"key": "websocket:diary"}, {"key": "telegram:0"}]
    copied = [{**work, side: turn} for side in ("before", "through") for turn in turns]
    rest.known = {
        **dict.fromkeys(("messages", "about", "workspace", "export", "rename", "children"), sessions),
        "fork": [*sessions, *copied],
        "delete": [{"key": f"telegram:{number}"} for number in range(SPARE // 2, SPARE)],
        "trajectory": tasks,
        "end": tasks,
        "search": [{"q": "diary"}, {"q": "look"}],
        "download": [{"id": media}],
        "decide": [{"channel": "telegram", "sender": f"u{number}"} for number in range(SPARE)],
        "resolve": [{"id": one["id"]} for one in rest.get("/api/outbox")["letters"]],
    }

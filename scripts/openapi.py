"""Write docs/openapi.json, the page's REST as OpenAPI 3.1: `python -m scripts.openapi`; `--check` says whether it is right.

Bodies are the Structs that the handlers read, answers those of `openapi_answers`, and the routes must be those of the code.
"""

import json
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from starlette.routing import Route

from channels.websocket.desk import Desk
from channels.websocket.hub import Hub
from channels.websocket.media import MAX_POST
from channels.websocket.office import Decision, Resolve
from channels.websocket.request import MAX_BODY
from channels.websocket.rest import MAX_QUERY, Fork, Rename, Rest
from channels.websocket.settings import read_settings
from nanobot import http
from nanobot.testing_port import FakePort
from scripts import openapi_answers as answers

PATH = Path(__file__).parents[1] / "docs" / "openapi.json"
REFS = "#/components/schemas/{name}"
ABOUT = """The REST beside the WebSocket protocol, of which [protocol.md](protocol.md) is the full text. Made by \
`scripts/openapi.py` from the program; a test draws requests from it and holds a gateway's answers to it.

What one may not see is 404. Objects may get more fields; ignore those that are unknown."""
ERRORS = {
    400: "The request is not what is needed; `detail` says why.",
    401: "A valid token is needed.",
    403: "This Host or Origin may not ask.",
    404: "There is no such thing here, or not for this caller.",
    413: "The body is too long.",
    415: "The body is the file itself, not a form.",
    503: "The store failed; nothing was changed. Ask again later.",
}
JSON, TEXT, LINES, FILE = "application/json", "text/plain", "application/x-ndjson", "*/*"
BYTES = "application/octet-stream"  # or any other type but a form's


class Query(msgspec.Struct, frozen=True):
    name: str
    about: str
    schema: dict[str, Any]
    required: bool = False


class Operation(msgspec.Struct, frozen=True):
    """One request. `answer` and `body` are a Struct for JSON, else a media type."""

    method: str
    path: str
    id: str  # the handler's name
    about: str
    answer: Any
    errors: tuple[int, ...] = ()
    query: tuple[Query, ...] = ()
    body: Any = None
    optional: bool = False  # an empty body is an empty object
    status: int = 200
    limit: int = MAX_BODY


def number(name: str, about: str) -> Query:
    return Query(name, about, {"type": "integer", "minimum": 0, "maximum": 999_999_999})


SESSION = "/api/sessions/{key}"
CHILD = f"{SESSION}/children/{{id}}"
FULL = Query("full", "Whether steps are told in full, with `1` or `true`.", {"type": "string"})
TITLE = Query("name", "The file's name, to be shown.", {"type": "string"})
# Blanks around it and NULs do not count.
WORDS = Query(
    "q",
    'Words that a message must all have; `"quoted words"` count as one.',
    {"type": "string", "minLength": 1, "maxLength": MAX_QUERY, "pattern": "[^\\s\\u0000]"},
    required=True,
)
SCHEMAS = {TEXT: {"type": "string"}, BYTES: {"type": "string", "format": "binary", "minLength": 1}}
CALLER = (401, 403)  # refused before anything is looked at
OPERATIONS = (
    Operation(
        "GET", "/api/sessions", "sessions", "The sessions that the caller may see.", answers.SessionList,
        (400, *CALLER, 503), (number("limit", "How many at most."),),
    ),
    Operation(
        "GET", f"{SESSION}/messages", "messages", "A page of a session's history, from after the last /new.",
        answers.HistoryPage, (400, *CALLER, 404, 503),
        (
            number("before", "The cursor of an earlier page; by default the newest messages."),
            number("limit", "How many; 24, at most 500."),
        ),
    ),
    Operation(
        "GET", f"{SESSION}/about", "about", "A session's model, context, costs and goal.", answers.SessionAbout,
        (*CALLER, 404, 503),
    ),
    Operation(
        "GET", f"{SESSION}/workspace", "workspace", "How a session and its working tree stand.",
        answers.SessionWorkspace, (*CALLER, 404, 503),
    ),
    Operation(
        "GET", f"{SESSION}/export", "export", "The whole session as JSON lines, archive included, as an attachment.",
        LINES, (*CALLER, 404, 503),
    ),
    Operation(
        "POST", f"{SESSION}/fork", "fork", "Copy a session to a new chat of the caller's.", answers.Forked,
        (400, *CALLER, 404, 413, 503), body=Fork, optional=True, status=201,
    ),
    Operation(
        "PATCH", SESSION, "rename", "Give a session a title.", answers.Renamed, (400, *CALLER, 404, 413, 503), body=Rename
    ),
    Operation(
        "DELETE", SESSION, "delete", "Stop what runs in a session and remove it.", answers.Deleted, (*CALLER, 404, 503)
    ),
    Operation(
        "GET", f"{SESSION}/children", "children", "What a session delegated.", answers.TaskList, (*CALLER, 404, 503)
    ),
    Operation(
        "GET", f"{CHILD}/trajectory", "trajectory", "What a sub-session did, step by step.", answers.Trajectory,
        (*CALLER, 404, 503), (FULL,),
    ),
    Operation("POST", f"{CHILD}/end", "end", "End a sub-session that runs.", answers.Ended, (*CALLER, 404, 503)),
    Operation(
        "GET", "/api/search", "search", "Messages by their words.", answers.Hits, (400, *CALLER, 503),
        (WORDS, number("limit", "How many; 50, at most 200.")),
    ),
    Operation("GET", "/api/commands", "commands", "The commands of every chat.", answers.CommandList, CALLER),
    Operation(
        "POST", "/api/media", "upload", "Keep a file, to be sent with a message. It is typed by its first bytes.",
        answers.Uploaded, (400, *CALLER, 413, 415, 503), (TITLE,), body=BYTES, status=201, limit=MAX_POST,
    ),
    Operation(
        "GET", "/api/media/{id}", "download", "A file, for who sent it, the chat it was sent to, or the owner.", FILE,
        (*CALLER, 404, 503),
    ),
    Operation(
        "GET", "/api/pairing", "people", "Who asked to be let in, and who was. For the owner.", answers.People,
        (*CALLER, 404, 503),
    ),
    Operation(
        "POST", "/api/pairing", "decide", "Let somebody in, or out. For the owner.", answers.People,
        (400, *CALLER, 404, 413, 503), body=Decision,
    ),
    Operation(
        "GET", "/api/outbox", "letters", "Replies that did not arrive. For the owner.", answers.Letters,
        (*CALLER, 404, 503),
    ),
    Operation(
        "POST", "/api/outbox", "resolve", "Send such a reply again, or drop it. For the owner.", answers.Letters,
        (400, *CALLER, 404, 413, 503), body=Resolve,
    ),
    Operation("GET", "/healthz", "healthz", "The gateway's state.", answers.Health, (403,)),
    Operation("GET", "/readyz", "readyz", "Whether the gateway is ready; 503 until then.", answers.Ready, (403, 503)),
    Operation("GET", "/metrics", "metrics", "Metrics for Prometheus. For the owner.", TEXT, (401, 403)),
)  # fmt: skip


def document() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for one in OPERATIONS:
        paths.setdefault(one.path, {})[one.method.lower()] = described(one)
    written = [answers.Refusal, *(one.answer for one in OPERATIONS if isinstance(one.answer, type))]
    read = [one.body for one in OPERATIONS if isinstance(one.body, type)]
    _, schemas = msgspec.json.schema_components([*written, *read], ref_template=REFS)
    complete(schemas, written)
    refusal = {JSON: {"schema": {"$ref": REFS.format(name="Refusal")}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "nanobot", "version": "1", "description": ABOUT},
        "servers": [{"url": "http://127.0.0.1:8765"}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "header": {"type": "http", "scheme": "bearer"},
                "query": {"type": "apiKey", "in": "query", "name": "token"},
            },
            "responses": {
                str(code): {"description": text, "content": refusal} for code, text in ERRORS.items()
            },
            "schemas": dict(sorted(schemas.items())),
        },
    }


def described(one: Operation) -> dict[str, Any]:
    own = not one.path.startswith("/api")
    found: dict[str, Any] = {"operationId": one.id, "summary": one.about}
    if parameters := [*map(place, re.findall(r"{(\w+)}", one.path)), *map(query, one.query)]:
        found["parameters"] = parameters
    if one.body is not None:
        found["requestBody"] = {
            "description": f"At most {one.limit} bytes.",
            "required": not one.optional,
            "content": content(one.body),
        }
    found["responses"] = {str(one.status): {"description": "As asked.", "content": content(one.answer)}}
    for code in one.errors:
        # The server's own routes speak plainly; not being ready is an answer as well.
        kind = one.answer if code == 503 else TEXT
        said = {"description": ERRORS[code], "content": content(kind)}
        found["responses"][str(code)] = said if own else {"$ref": f"#/components/responses/{code}"}
    if not own or one.id == "metrics":
        # Without configured tokens nobody needs one.
        found["security"] = [{}, {"header": []}, *([] if own else [{"query": []}])]
    return found


def content(kind: Any) -> dict[str, Any]:
    if isinstance(kind, type):
        return {JSON: {"schema": {"$ref": REFS.format(name=kind.__name__)}}}
    return {kind: {"schema": SCHEMAS[kind]} if kind in SCHEMAS else {}}


def place(name: str) -> dict[str, Any]:
    about, pattern = "The id of a file or of a sub-session.", "^[^/]+$"
    if name == "key":
        about = "A session key such as `websocket:work` or `slack:C1:1712.3`, percent-encoded or not."
        pattern = "^[^\\u0000\\n]*:[^\\u0000\\n]*$"
    schema = {"type": "string", "maxLength": 512, "pattern": pattern}
    return {"name": name, "in": "path", "required": True, "description": about, "schema": schema}


def query(one: Query) -> dict[str, Any]:
    return {
        "name": one.name,
        "in": "query",
        "required": one.required,
        "description": one.about,
        "schema": one.schema,
    }


def complete(schemas: dict[str, Any], kinds: list[type]) -> None:
    """In an answer every field is there, unless its Struct leaves out defaults."""
    waiting: list[Any] = list(msgspec.inspect.multi_type_info(kinds))
    while waiting:
        node = waiting.pop()
        if isinstance(node, msgspec.inspect.StructType) and not node.cls.__struct_config__.omit_defaults:
            schema = schemas[node.cls.__name__]
            schema["required"] = list(schema["properties"])
        parts = [getattr(node, name) for name in getattr(node, "__struct_fields__", ())]
        waiting += [part for one in parts for part in (one if isinstance(one, tuple) else (one,))]


def routes() -> set[tuple[str, str]]:
    """Method and path of all that a gateway's server answers beside the page's files and the sockets."""

    async def health() -> dict[str, Any]:
        return {}

    with TemporaryDirectory() as folder:
        desk = Desk(FakePort(Path(folder), name="websocket"), read_settings({}), Hub("websocket", ""))
        ways = [(method, path) for method, path, _ in Rest(desk).handlers()]
    app = http.build([], health=health, ready=lambda: True, metrics=bytes)
    own = [("GET", one.path) for one in app.routes if isinstance(one, Route)]
    return {(method, re.sub(r"{(\w+):path}", r"{\1}", path)) for method, path in (*ways, *own)}


def main() -> int:
    told = {(one.method, one.path) for one in OPERATIONS}
    if told != routes():
        print(f"scripts/openapi.py and the code differ in: {sorted(told ^ routes())}")
        return 1
    wanted = json.dumps(document(), indent=1, ensure_ascii=False) + "\n"
    if PATH.exists() and PATH.read_text(encoding="utf-8") == wanted:
        return 0
    if "--check" in sys.argv:
        print("docs/openapi.json is not what the program says: run .venv/bin/python -m scripts.openapi")
        return 1
    PATH.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

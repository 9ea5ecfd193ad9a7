"""docs/openapi.json is true: requests drawn from it meet a real gateway, and every answer is as it says."""

import json
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from scripts import openapi
from tests.fuzz.rest_house import DOCUMENT, RestHouse, started
from tests.security.house import ALICE, OWNER, model

DOC: dict[str, Any] = json.loads(DOCUMENT.read_text())
PATHS: dict[str, dict[str, dict[str, Any]]] = DOC["paths"]
OPERATIONS = {
    one["operationId"]: (method, path, one) for path, ways in PATHS.items() for method, one in ways.items()
}
# What the document leaves open for later is closed here: nothing may be sent that it does not name.
CLOSED = json.loads(DOCUMENT.read_text())["components"]
for _schema in CLOSED["schemas"].values():
    _schema.setdefault("additionalProperties", False)

WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**70,
    1.5,
    "",
    "x",
    "0",
    "9" * 10,
    "1.5",
    "x" * 600,
    " ",
    [],
    [{}],
    {},
    {"a": []},
)
# How a request comes → the status that it must meet; None: any that the document names, but not "bad request".
WAYS: dict[str, int | None] = {"known": None, "unknown": None, "user": None, "wrong": 400, "nobody": 401, "foreign": 403,
                               "long": 413, "form": 415}  # fmt: skip
EXAMPLES = max(10, int(os.environ.get("NANOBOT_FUZZ", "10000")) // 1000)  # of one way to one operation


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestHouse]:
    with model() as url, started(tmp_path_factory.mktemp("rest"), url) as house:
        yield house


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestHouse]:
    with started(tmp_path_factory.mktemp("rest"), "http://127.0.0.1:1", tokens=False) as house:
        yield house


def test_every_route_is_in_the_document_and_in_the_protocol_and_nothing_else_is() -> None:
    told = {(method.upper(), path) for path, ways in PATHS.items() for method in ways}
    protocol = (DOCUMENT.parent / "protocol.md").read_text()
    assert told == openapi.routes()
    assert [one for one in told if one[1].startswith("/api") and f"`{one[0]} {one[1]}" not in protocol] == []


@pytest.mark.hypothesis
@pytest.mark.xdist_group("openapi")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_is_drawn_from_the_document_is_answered_as_it_says(
    closed: RestHouse, opened: RestHouse, operation: str
) -> None:
    method, path, told = OPERATIONS[operation]
    known = closed.known.get(operation, [{}])
    seen: set[str] = set()

    def asked(request: Request, way: str) -> None:
        # Where tokens are set, the server's own routes do not mind the name they are called by.
        house = opened if way == "foreign" and not path.startswith("/api") else closed
        status, kind, answer = house.send(*request)
        what = f"{way}: {request} → {status} {kind} {answer[:500]!r}"
        assert WAYS[way] in {status, None}, what
        assert WAYS[way] is not None or status != 400, what
        check(told["responses"].get(str(status)), kind, answer, what)
        seen.add(str(status))

    for there in known if method == "get" else ():
        query = {
            one["name"]: there[one["name"]]
            for one in told.get("parameters", ())
            if one["in"] == "query" and one["name"] in there
        }
        asked((*line(operation, there, query), {"Authorization": f"Bearer {OWNER}"}, None, 0), "known")
    for way, status in WAYS.items():
        if status is None or str(status) in told["responses"]:
            drawn = given(requests(operation, way, known), st.just(way))(asked)
            settings(max_examples=EXAMPLES if status in {None, 400} else 3, deadline=None)(drawn)()
    # A gateway is ready when it says where it is, and its store does not fail here.
    assert told["responses"].keys() - {"503"} <= seen


def check(said: dict[str, Any] | None, kind: str, answer: bytes, what: str) -> None:
    """The answer is one of those that the document names, and its body is as it says."""
    assert said is not None, f"the document does not know this status: {what}"
    said = DOC["components"]["responses"][said["$ref"].rpartition("/")[2]] if "$ref" in said else said
    assert {kind, "*/*"} & said["content"].keys(), f"the document does not know this type: {what}"
    if kind == "application/json" and kind in said["content"]:
        schema = said["content"][kind]["schema"]
        problems = [one.message for one in validator(schema).iter_errors(json.loads(answer))]
        assert not problems, f"{problems[:3]}: {what}"
    elif kind == "application/x-ndjson":
        assert all(json.loads(line) for line in answer.splitlines())


def validator(schema: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator({**schema, "components": CLOSED})


# --- requests ------------------------------------------------------------------------------------------------------

Request = tuple[str, str, dict[str, str], bytes | None, int]


@st.composite
def requests(draw: st.DrawFn, operation: str, way: str, known: list[dict[str, Any]]) -> Request:
    _, _, told = OPERATIONS[operation]
    there: dict[str, Any] = draw(st.sampled_from(known)) if way != "unknown" else {}
    query: dict[str, Any] = {}
    places: dict[str, str] = {}
    for one in told.get("parameters", ()):
        into = query if one["in"] == "query" else places
        if one["required"] or draw(st.booleans()):
            into[one["name"]] = there.get(one["name"], draw(values(one["schema"])))
    body, kind = draw(bodies(told, there)) if "requestBody" in told else (None, "")
    if way == "wrong":
        query, body = draw(spoilt(told, query, body))
    headers = {"Authorization": f"Bearer {ALICE if way == 'user' else OWNER}", "Content-Type": kind}
    if way == "nobody":
        del headers["Authorization"]  # wrong tokens would slow all further ones down
    elif way == "foreign":
        headers["Host"] = "rebound.example"
    elif way == "form":
        headers["Content-Type"] = "multipart/form-data; boundary=x"
    # A body that is too long need not be sent to be refused.
    length = 10**9 if way == "long" else 0
    return (*line(operation, places, query), headers, None if length else body, length)


def line(operation: str, places: dict[str, str], query: dict[str, Any]) -> tuple[str, str]:
    """A request's method and target."""
    method, path, _ = OPERATIONS[operation]
    for name, value in places.items():
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    return method.upper(), f"{path}?{urlencode(query)}" if query else path


@st.composite
def bodies(draw: st.DrawFn, told: dict[str, Any], there: dict[str, Any]) -> tuple[bytes, str]:
    [(kind, content)] = told["requestBody"]["content"].items()
    if kind != "application/json":
        return draw(st.binary(min_size=1, max_size=50)), draw(st.sampled_from(["image/png", "text/html", ""]))
    value = draw(values(content["schema"]))
    body = {
        **value,
        **{name: there[name] for name in schema_of(content["schema"])["properties"] if name in there},
    }
    if not told["requestBody"]["required"] and draw(st.booleans()):
        return b"", ""
    return json.dumps(body).encode(), kind


@st.composite
def spoilt(
    draw: st.DrawFn, told: dict[str, Any], query: dict[str, Any], body: bytes | None
) -> tuple[dict[str, Any], bytes | None]:
    """The same request with one thing that is not as the document wants it."""
    spots = [
        one for one in told.get("parameters", ()) if one["in"] == "query" and not anything(one["schema"])
    ]
    spot = draw(st.sampled_from([*spots, *(["body"] if body is not None else [])]))
    if spot != "body":
        texts = [one for one in WRONG if isinstance(one, str)]
        bad = draw(st.sampled_from([one for one in texts if not fits(one, spot["schema"])]))
        if spot["required"] and draw(st.booleans()):
            return {name: one for name, one in query.items() if name != spot["name"]}, body
        return {**query, spot["name"]: bad}, body
    [(kind, content)] = told["requestBody"]["content"].items()
    if kind != "application/json":
        return query, b""
    value = draw(values(content["schema"]))
    broken: list[Any] = [b"{", b"[" * 9000, b'{"a": \xff}']
    for name, schema in schema_of(content["schema"])["properties"].items():
        broken += [{**value, name: one} for one in WRONG if not validator(schema).is_valid(one)]
        if name in schema_of(content["schema"])["required"]:
            broken.append({key: one for key, one in value.items() if key != name})
    bad = draw(st.sampled_from(broken))
    return query, bad if isinstance(bad, bytes) else json.dumps(bad).encode()


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a schema of a request allows."""
    schema = schema_of(schema)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema["type"]:
        case "object":
            wanted = {name: values(one) for name, one in schema["properties"].items()}
            optional = wanted.keys() - set(schema["required"])
            return st.fixed_dictionaries(
                {name: one for name, one in wanted.items() if name not in optional},
                optional={name: wanted[name] for name in sorted(optional)},
            )
        case "integer":
            largest = schema.get("maximum", 2**70)
            return st.just(largest) | st.integers(schema.get("minimum"), largest)
        case "string" if "pattern" in schema:
            # In Python `$` also matches before a last line's end, in JSON Schema it does not.
            texts = st.from_regex(schema["pattern"]).filter(lambda text: not text.endswith("\n"))
            longest = ("a:" * schema["maxLength"])[: schema["maxLength"]]
            return st.just(longest) | texts.filter(lambda text: len(text) <= schema["maxLength"])
        case "string":
            return st.text(max_size=60)
        case kind:
            raise NotImplementedError(kind)


def schema_of(schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = schema
    if "$ref" in schema:
        found = DOC["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found


def fits(text: str, schema: dict[str, Any]) -> bool:
    """Whether a text of a query is a value that the schema allows."""
    value: Any = int(text) if schema["type"] == "integer" and text.isdecimal() else text
    return validator(schema).is_valid(value)


def anything(schema: dict[str, Any]) -> bool:
    return schema == {"type": "string"}

"""The contract of a tool, and the way to make one from a function: its arguments are a msgspec Struct.

class Read(msgspec.Struct, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="Relative to the workspace")]

@tool("read_file", "Read a text file.", read_only=True)
async def read_file(arguments: Read, context: ToolContext) -> ToolResult: ...
"""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, get_type_hints

import msgspec

from nanobot.errors import BadArguments
from nanobot.messages import Address, Attachment
from nanobot.model import ToolSpec

DEFAULT_TIMEOUT = 60.0  # seconds


class ToolContext(msgspec.Struct, frozen=True):
    """Who calls, and from where. `say` shows one line of progress, live and lossy."""

    session: str
    turn: str
    call_id: str
    address: Address
    workspace: Path
    say: Callable[[str], None]


class ToolResult(msgspec.Struct, frozen=True):
    """What goes back to the model. `data` is for the page, never for the model."""

    text: str
    error: bool = False
    media: tuple[Attachment, ...] = ()
    data: dict[str, Any] = {}


class Tool(Protocol):
    """Something the agent can do.

    `read_only` and `idempotent` calls are run again after a crash; others get "interrupted: outcome unknown".
    `run` raises ToolError for what the model should know; it must end within `timeout` seconds or be cancelled, and
    a cancelled call leaves no process behind.
    """

    spec: ToolSpec
    read_only: bool
    idempotent: bool
    timeout: float

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult: ...


A = TypeVar("A", bound=msgspec.Struct)


class FunctionTool(Generic[A]):
    """A tool made of an async function whose first argument is a Struct: schema and checks come from its types."""

    def __init__(
        self,
        function: Callable[[A, ToolContext], Awaitable[ToolResult]],
        name: str,
        description: str,
        *,
        read_only: bool = False,
        idempotent: bool = False,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self.function = function
        self.read_only = read_only
        self.idempotent = idempotent or read_only
        self.timeout = timeout
        hints = get_type_hints(function)
        self.arguments: type[A] = next(hint for key, hint in hints.items() if key != "return")
        self.spec = ToolSpec(name, description, _schema(self.arguments))

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        try:
            parsed = msgspec.convert(arguments, self.arguments, strict=False)
        except msgspec.ValidationError as error:
            raise BadArguments(f"{self.spec.name}: {error}") from error
        return await self.function(parsed, context)


def tool(
    name: str,
    description: str,
    *,
    read_only: bool = False,
    idempotent: bool = False,
    timeout: float = DEFAULT_TIMEOUT,
) -> Callable[[Callable[[A, ToolContext], Awaitable[ToolResult]]], FunctionTool[A]]:
    """Make a tool of an async function; the description is what the model reads."""

    def make(function: Callable[[A, ToolContext], Awaitable[ToolResult]]) -> FunctionTool[A]:
        return FunctionTool(
            function, name, description, read_only=read_only, idempotent=idempotent, timeout=timeout
        )

    return make


def _schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of a Struct with its references resolved, since providers differ on `$ref`."""
    (schema,), definitions = msgspec.json.schema_components([arguments], ref_template="{name}")
    resolved = _resolve(schema, definitions)
    resolved.pop("title", None)
    return dict(resolved)


def _resolve(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, dict):
        if "$ref" in node:
            return _resolve(definitions[node["$ref"]], definitions)
        return {key: _resolve(value, definitions) for key, value in node.items()}
    if isinstance(node, list):
        return [_resolve(item, definitions) for item in node]
    return node

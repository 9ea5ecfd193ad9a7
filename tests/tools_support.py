"""What the tests of tools and security share: settings, a context, and a toolbox over a fresh workspace."""

import json
from pathlib import Path
from typing import Any

from nanobot.messages import Address, Attachment
from nanobot.model import ToolCall
from nanobot.security.audit import Audit
from nanobot.security.context import SecurityContext
from nanobot.stores.media import MediaFiles
from nanobot.tool import ToolContext, ToolResult
from nanobot.tools.toolbox import Toolbox, run_tool, standard
from tests.security_support import Settings

__all__ = ["Desk", "Settings"]


class Desk:
    """A workspace with state, configuration and channels, and its tools as a model would call them."""

    def __init__(self, root: Path, settings: Settings | None = None) -> None:
        self.workspace = root / "work"
        self.state = self.workspace / ".nanobot"
        self.sent: list[tuple[Address, str, tuple[Attachment, ...]]] = []
        self.said: list[str] = []
        self.here = Address("telegram", "7", "topic:1")
        self.outside = root / "outside.txt"
        (self.state / "sessions").mkdir(parents=True)
        (self.workspace / "channels" / "echo").mkdir(parents=True)
        self.secret = self.state / "sessions" / "a.jsonl"
        for path in (
            self.secret,
            self.workspace / "config.toml",
            self.workspace / "channels" / "echo" / "a.py",
        ):
            path.write_text("secret\n")
        self.outside.write_text("secret\n")
        self.audit = Audit(self.state / "audit.jsonl")
        self.security = SecurityContext.of(settings or Settings(), self.workspace, [self.state])
        self.toolbox: Toolbox
        self.reopen()

    def reopen(self, files: MediaFiles | None = None) -> None:
        self.toolbox = standard(self.security, self.state, self._send, self.audit, files)

    async def call(self, name: str, /, **arguments: Any) -> ToolResult:
        return await self.raw(name, json.dumps(arguments))

    async def raw(self, name: str, arguments: str, call: str = "c1") -> ToolResult:
        return await run_tool(self.toolbox, ToolCall(call, name, arguments), self.context(call))

    def context(self, call: str = "c1") -> ToolContext:
        return ToolContext(self.here.key, "t1", call, self.here, self.workspace, self.said.append)

    async def _send(self, address: Address, text: str, media: tuple[Attachment, ...]) -> str:
        self.sent.append((address, text, media))
        return f"m{len(self.sent)}"

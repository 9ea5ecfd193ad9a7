"""The exec tool: a shell command in the sandbox."""

import asyncio
import shutil
from typing import Annotated

import msgspec
from msgspec import Meta

from nanobot.errors import ToolError
from nanobot.security import environment, process
from nanobot.security.context import Prepared, SecurityContext
from nanobot.tool import FunctionTool, ToolContext, ToolResult, tool

MAX_SECONDS = 600.0
_SPARE = 30.0  # what ending a command may take beyond its own time


class Exec(msgspec.Struct, forbid_unknown_fields=True):
    command: Annotated[str, Meta(description="Run by bash, or sh where there is none.", min_length=1)]
    working_dir: Annotated[str, Meta(description="A directory of the workspace.")] = "."
    timeout: Annotated[
        float, Meta(description="Seconds, at most 600; 0 = as configured.", ge=0, le=MAX_SECONDS)
    ] = 0


def exec_tool(security: SecurityContext) -> FunctionTool[Exec]:
    @tool(
        "exec",
        "Run a shell command in the workspace and return its output (stdout and stderr together) and exit code. "
        "Each call is a new shell without a terminal. Background processes are killed when the command ends. "
        + (
            "The network can be used."
            if security.network
            else "There may be no network: use web_fetch for pages."
        ),
        timeout=MAX_SECONDS + _SPARE,
    )
    async def run(arguments: Exec, context: ToolContext) -> ToolResult:
        place = security.within(context.workspace)
        seconds = min(arguments.timeout or security.exec_seconds, MAX_SECONDS)
        ready = await asyncio.to_thread(_prepare, place, arguments)
        try:
            done = await process.run(
                ready.line,
                cwd=place.boundary.root,
                environment=ready.environment,
                timeout=seconds,
                limits=ready.limits,
                session=context.session,
            )
        except OSError as error:
            raise ToolError(f"the command could not be started: {error}") from error
        return _told(done, seconds)

    return run


def _prepare(security: SecurityContext, arguments: Exec) -> Prepared:
    boundary = security.boundary
    parts = boundary.locate(arguments.working_dir)
    with boundary.directory(parts):
        folder = boundary.root.joinpath(*parts)
    shell = shutil.which("bash", path=environment.PATH) or "/bin/sh"
    return security.command([shell, "-c", arguments.command], folder)


def _told(done: process.Finished, seconds: float) -> ToolResult:
    notes = []
    if done.timed_out:
        notes.append(f"[stopped after {seconds:g} s with everything it had started]")
    else:
        notes.append(f"[exit code {done.code}]")
    if done.left_out:
        notes.append(f"[output truncated: {done.left_out:,} bytes of its middle left out]")
    output = done.output.rstrip("\n")
    text = "\n".join([*([output] if output else ["(no output)"]), *notes])
    data = {"code": done.code, "seconds": round(done.seconds, 3), "timed_out": done.timed_out}
    return ToolResult(text, error=done.timed_out or done.code != 0, data=data)

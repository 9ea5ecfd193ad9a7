"""The exec tool: a shell command in the sandbox."""

import asyncio
import os
import shutil
from typing import Annotated

import msgspec
from msgspec import Meta

from nanobot.errors import Refused, ToolError
from nanobot.security import environment, process, sandbox
from nanobot.security.levels import SecuritySettings, rules
from nanobot.security.paths import Boundary
from nanobot.tool import FunctionTool, ToolContext, ToolResult, tool

MAX_SECONDS = 600.0
_SPARE = 30.0  # what ending a command may take beyond its own time

REMEDY = "install bubblewrap, or set [security] allow_unsandboxed = true"


class Exec(msgspec.Struct, forbid_unknown_fields=True):
    command: Annotated[str, Meta(description="Run by bash, or sh where there is none.", min_length=1)]
    working_dir: Annotated[str, Meta(description="A directory of the workspace.")] = "."
    timeout: Annotated[
        float, Meta(description="Seconds, at most 600; 0 = as configured.", ge=0, le=MAX_SECONDS)
    ] = 0


def exec_tool(boundary: Boundary, settings: SecuritySettings) -> FunctionTool[Exec]:
    allowed = rules(settings)
    network = allowed.network == "always" or (allowed.network == "configured" and settings.network)

    @tool(
        "exec",
        "Run a shell command in the workspace and return its output (stdout and stderr together) and exit code. "
        "Each call is a new shell without a terminal. Background processes are killed when the command ends. "
        + ("The network can be used." if network else "There may be no network: use web_fetch for pages."),
        timeout=MAX_SECONDS + _SPARE,
    )
    async def run(arguments: Exec, context: ToolContext) -> ToolResult:
        place = boundary.within(context.workspace)
        seconds = min(arguments.timeout or settings.exec_timeout, MAX_SECONDS)
        command, env = await asyncio.to_thread(_prepare, place, settings, arguments, network=network)
        limits = process.Limits(file_mb=settings.max_file_mb, memory_mb=allowed.memory_mb)
        try:
            done = await process.run(command, cwd=place.root, environment=env, timeout=seconds, limits=limits)
        except OSError as error:
            raise ToolError(f"the command could not be started: {error}") from error
        return _told(done, seconds)

    return run


def _prepare(
    boundary: Boundary, settings: SecuritySettings, arguments: Exec, *, network: bool
) -> tuple[list[str], dict[str, str]]:
    parts = boundary.locate(arguments.working_dir)
    with boundary.directory(parts):
        folder = boundary.root.joinpath(*parts)
    shell = shutil.which("bash", path=environment.PATH) or "/bin/sh"
    inner = [shell, "-c", arguments.command]
    if sandbox.usable():
        line = sandbox.command(
            inner,
            boundary=boundary,
            working_dir=folder,
            network=network,
            processes=rules(settings).processes,
        )
        return line, environment.scrubbed(boundary.root)
    if not (rules(settings).plain_exec or settings.allow_unsandboxed):
        raise Refused(f"exec is off at security level {settings.level}: {sandbox.probe()}", REMEDY)
    entered = ["/bin/sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", os.fspath(folder), *inner]
    return entered, environment.scrubbed(boundary.root)


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

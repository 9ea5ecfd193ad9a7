"""`nanobot sessions`: list, show, export, import, delete and repair histories."""

import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nanobot.cli.common import (
    JsonOption,
    WorkspaceOption,
    as_json,
    cut,
    existing_workspace,
    make_app,
    table,
    workspace_of,
)
from nanobot.errors import UsageError
from nanobot.plain import clean, printable
from nanobot.workspace import state_dir

if TYPE_CHECKING:
    from nanobot.stores.lock import StateLock
    from nanobot.stores.sessions import SessionManager

SEAL = "seal.json"  # `security.state_key.NAME`, which is not imported for --help

app = make_app("Look at histories and move them about. Commands that change one refuse while a gateway runs.")

KeyArgument = Annotated[str, typer.Argument(help="The session's key, such as slack:C1 or websocket:cli.")]


def manager(workspace: Path) -> "SessionManager":
    from nanobot.stores.sessions import SessionManager  # noqa: PLC0415 - lazy: --help needs no store

    return SessionManager(directory=state_dir(workspace) / "sessions")


def locked(workspace: Path) -> "StateLock":
    """The state for this command alone; StateLocked says that a gateway runs."""
    from nanobot.stores.lock import StateLock  # noqa: PLC0415 - lazy: --help needs no store

    return StateLock(state_dir(workspace))


def gateway_runs(workspace: Path) -> bool:
    from nanobot.stores.lock import holder  # noqa: PLC0415 - lazy: --help needs no store

    return state_dir(workspace).is_dir() and holder(state_dir(workspace)) is not None


@app.command("list")
def list_command(ctx: typer.Context, workspace: WorkspaceOption = None, json: JsonOption = False) -> None:
    """List sessions, newest first."""
    rows = manager(existing_workspace(ctx, workspace)).list_sessions()
    if json:
        as_json(rows)
        return
    table(
        ("KEY", "MESSAGES", "UPDATED", "TITLE"),
        (
            (
                row["key"],
                row["messages"],
                str(row["updated_at"])[:16].replace("T", " "),
                cut(row["title"] or row["preview"], 60),
            )
            for row in rows
        ),
    )


@app.command("show")
def show(
    ctx: typer.Context,
    key: KeyArgument,
    workspace: WorkspaceOption = None,
    number: Annotated[int, typer.Option("-n", min=1, help="How many messages.")] = 20,
    json: JsonOption = False,
) -> None:
    """Print a session's last messages.

    Example: nanobot sessions show telegram:123 -n 50
    """
    found = manager(existing_workspace(ctx, workspace)).read_session_file(key)
    if found is None:
        raise missing(key)
    if json:
        as_json(found)
        return
    for line in found["messages"][-number:]:
        typer.echo(printable(f"[{str(line.get('timestamp', ''))[:19]}] {line.get('role')}: {words(line)}"))


@app.command("export")
def export(
    ctx: typer.Context,
    key: KeyArgument,
    workspace: WorkspaceOption = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A file; else standard output.")
    ] = None,
) -> None:
    """Write a whole session, its archive included, as one JSONL text.

    Example: nanobot sessions export slack:C1 -o c1.jsonl
    """
    place = existing_workspace(ctx, workspace)
    data = export_copy(place, key) if gateway_runs(place) else manager(place).export(key)
    if output is None:
        sys.stdout.buffer.write(data)
    else:
        try:
            output.write_bytes(data)
        except OSError as error:
            raise UsageError(f"{output}: {error.strerror}. Choose another file.") from error
        typer.echo(f"{len(data)} bytes written to {output}", err=True)


@app.command("import")
def import_command(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="What `export` wrote; - is standard input.")],
    workspace: WorkspaceOption = None,
    key: Annotated[str | None, typer.Option(help="Its key here; else the one it had.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a session of that key.")] = False,
) -> None:
    """Put an exported session in place."""
    place = workspace_of(ctx, workspace)
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}. Name a file that `export` wrote.") from error
    with locked(place):
        session = manager(place).import_session(data, key, overwrite=overwrite)
    typer.echo(clean(f"{session.key}: {len(session.messages)} messages"))


@app.command("delete")
def delete(ctx: typer.Context, key: KeyArgument, workspace: WorkspaceOption = None) -> None:
    """Remove a session for good, its archive included."""
    place = existing_workspace(ctx, workspace)
    with locked(place):
        if not manager(place).delete_session(key):
            raise missing(key)
    typer.echo(f"{key}: deleted")


@app.command("repair")
def repair(
    ctx: typer.Context,
    key: Annotated[str | None, typer.Argument(help="The session's key; else all of them.")] = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Mend damaged session files. What is taken out is kept in a file beside it."""
    place = existing_workspace(ctx, workspace)
    changed = 0
    with locked(place):
        sessions = manager(place)
        keys = [key] if key else [str(row["key"]) for row in sessions.list_sessions()]
        for one in keys:
            report = sessions.repair(one)
            if report is None:
                raise missing(one)
            if report.changed:
                changed += 1
                typer.echo(
                    f"{one}: {report.removed_lines} bad lines and {report.removed_bytes} bytes taken out"
                    + (f", kept in {report.kept_aside}" if report.kept_aside else "")
                )
    typer.echo(f"{len(keys)} looked at, {changed} mended")


def export_copy(workspace: Path, key: str) -> bytes:
    """Export from a copy: opening a file mends it, which must not happen under a running gateway's hands."""
    folder = state_dir(workspace) / "sessions"
    stem = manager(workspace).safe_key(key)
    with tempfile.TemporaryDirectory(prefix="nanobot-export-") as name:
        copy = Path(name) / "sessions"
        copy.mkdir()
        if (folder.parent / SEAL).is_file():  # an encrypted copy is read with the same keys
            shutil.copyfile(folder.parent / SEAL, copy.parent / SEAL)
        if (folder / f"{stem}.jsonl").is_file():
            shutil.copyfile(folder / f"{stem}.jsonl", copy / f"{stem}.jsonl")
        if (folder / "archive" / stem).is_dir():
            shutil.copytree(folder / "archive" / stem, copy / "archive" / stem)
        from nanobot.stores.sessions import SessionManager  # noqa: PLC0415 - lazy: --help needs no store

        return SessionManager(directory=copy).export(key)


def missing(key: str) -> UsageError:
    return UsageError(f"There is no session {key!r}; `nanobot sessions list` shows them.")


def words(line: Mapping[str, Any]) -> str:
    """What a message says, or does."""
    content = line.get("content")
    if isinstance(content, list):
        content = " ".join(str(part.get("text", "[…]")) for part in content if isinstance(part, dict))
    calls = [str(call.get("function", {}).get("name", "?")) for call in line.get("tool_calls") or ()]
    return " ".join(filter(None, [str(content or ""), f"[calls {', '.join(calls)}]" if calls else ""]))

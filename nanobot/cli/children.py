"""`nanobot children`: what was delegated, what became of it, and its end."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nanobot.cli.common import JsonOption, WorkspaceOption, as_json, cut, make_app, table, workspace_of
from nanobot.cli.state import with_store
from nanobot.errors import NanobotError, UsageError
from nanobot.plain import printable
from nanobot.workspace import state_dir

if TYPE_CHECKING:
    from nanobot.child import Child
    from nanobot.child_records import ChildRecords
    from nanobot.store import Store

app = make_app("Look at sub-sessions: work that was delegated. They are begun in a chat.")

IdArgument = Annotated[str, typer.Argument(help="The sub-session's id, or its first characters.")]


@app.command("list")
def list_command(
    ctx: typer.Context,
    workspace: WorkspaceOption = None,
    status: Annotated[str | None, typer.Option("--status", help="Only these, such as running.")] = None,
    json: JsonOption = False,
) -> None:
    """List all sub-sessions, newest first."""
    from nanobot.child import ICONS  # noqa: PLC0415 - lazy: --help needs none of it

    if status is not None and status not in ICONS:
        raise UsageError(f"{status!r} is no status. There are: {', '.join(ICONS)}.")

    async def work(records: "ChildRecords") -> list["Child"]:
        return records.all()

    every = _with_records(workspace_of(ctx, workspace), work, nothing=[])
    found = [one for one in every if status in (None, one.status)]
    if json:
        as_json([_plain(one) for one in found])
        return
    table(
        ("ID", "STATUS", "EXECUTOR", "TURN", "TOKENS", "UPDATED", "PARENT", "TASK"),
        (
            (
                one.short,
                one.status,
                one.executor,
                one.turn,
                one.spent.usage.input + one.spent.usage.output,
                one.updated_at.isoformat()[:16].replace("T", " "),
                one.parent,
                cut(" ".join(one.task.split()), 60),
            )
            for one in found
        ),
    )


@app.command("show")
def show(
    ctx: typer.Context, asked: IdArgument, workspace: WorkspaceOption = None, json: JsonOption = False
) -> None:
    """Show a sub-session: its task, its state and its answer."""

    async def work(records: "ChildRecords") -> tuple["Child", str]:
        child = records.find(asked)
        return child, await records.answer(child)

    child, answer = _with_records(workspace_of(ctx, workspace), work)
    if json:
        as_json({**_plain(child), "response": answer})
        return
    typer.echo(f"{child.key}  {child.executor}  {child.status}  turn {child.turn}  in {child.working_dir}")
    typer.echo(printable(f"Task: {child.task}"))
    if child.error:
        typer.echo(printable(f"Error: {child.error}"))
    if answer != child.error:
        typer.echo(printable(f"\n{answer or '(no response yet)'}"))


@app.command("trajectory")
def trajectory_command(
    ctx: typer.Context,
    asked: IdArgument,
    workspace: WorkspaceOption = None,
    full: Annotated[bool, typer.Option("--full", help="Cut nothing.")] = False,
    json: JsonOption = False,
) -> None:
    """Show what a sub-session did, step by step."""
    from nanobot.child_trajectory import detailed, trajectory  # noqa: PLC0415 - lazy: --help needs none of it

    async def work(records: "ChildRecords") -> Any:
        child = records.find(asked)
        return await detailed(records, child) if json else await trajectory(records, child, full=full)

    found = _with_records(workspace_of(ctx, workspace), work)
    if json:
        as_json(found)
        return
    for step in found["steps"]:
        typer.echo(printable(step))


@app.command("end")
def end(ctx: typer.Context, asked: IdArgument, workspace: WorkspaceOption = None) -> None:
    """End a running sub-session. Where a gateway runs it does so itself, within a few seconds."""
    from nanobot.child_requests import ask_to_end  # noqa: PLC0415 - lazy: --help needs none of it

    place = workspace_of(ctx, workspace)

    async def work(store: "Store") -> "Child":
        records = _records(store, place)
        await records.load()
        child = records.find(asked)
        if child.ended:
            raise UsageError(f"{child.short} is {child.status} already.")
        await ask_to_end(store.keys("children-end"), child)
        return child

    child = _usage(lambda: with_store(place, work))
    typer.echo(f"{child.short} will be ended by the gateway.")


def _with_records(workspace: Path, work: Any, nothing: Any = None) -> Any:
    async def run(store: "Store") -> Any:
        records = _records(store, workspace)
        await records.load()
        try:
            return await work(records)
        finally:
            await records.histories.close()  # type: ignore[attr-defined]

    return _usage(lambda: with_store(workspace, run, nothing))


def _records(store: "Store", workspace: Path) -> "ChildRecords":
    from nanobot.child_records import ChildRecords  # noqa: PLC0415 - lazy: --help needs no store
    from nanobot.security import state_key  # noqa: PLC0415 - as above
    from nanobot.stores.sessions import SessionManager  # noqa: PLC0415 - as above
    from nanobot.stores.turn_files import TurnFiles  # noqa: PLC0415 - as above

    state = state_dir(workspace)
    files = TurnFiles(state, state_key.found(state))
    return ChildRecords(store.keys("children"), SessionManager(directory=state / "sessions"), files)


def _usage(work: Any) -> Any:
    try:
        return work()
    except UsageError:
        raise
    except NanobotError as error:
        raise UsageError(str(error).replace("\nHint: ", "\n")) from error


def _plain(child: "Child") -> dict[str, Any]:
    import msgspec  # noqa: PLC0415 - lazy: --help needs none of it

    found: dict[str, Any] = msgspec.to_builtins(child)
    return found

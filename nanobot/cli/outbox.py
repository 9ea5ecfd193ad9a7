"""`nanobot outbox`: replies on their way, and those that did not arrive."""

from typing import TYPE_CHECKING, Annotated

import typer

from nanobot.cli.common import JsonOption, WorkspaceOption, as_json, cut, make_app, table, workspace_of
from nanobot.cli.state import with_store
from nanobot.errors import UsageError

if TYPE_CHECKING:
    from nanobot.store import Delivery, OutboxStatus, Store

app = make_app(
    "Look at replies on their way; send or drop those that failed. Works beside a running gateway."
)

Id = Annotated[
    int, typer.Argument(min=1, max=2**63 - 1, help="The number in the first column of `outbox list`.")
]
UNDELIVERED: tuple["OutboxStatus", ...] = ("posted", "pending", "sending", "unknown", "dead")


@app.command("list")
def list_command(
    ctx: typer.Context,
    workspace: WorkspaceOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Delivered ones too, of the last days.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many.")] = 200,
    json: JsonOption = False,
) -> None:
    """List replies that were not delivered."""

    async def work(store: "Store") -> "list[Delivery]":
        return list(await store.outbox.list(() if everything else UNDELIVERED, limit))

    empty: list[Delivery] = []
    rows = with_store(workspace_of(ctx, workspace), work, nothing=empty)
    if json:
        as_json(
            [
                {
                    "id": row.id,
                    "status": row.status,
                    "to": row.message.address.key,
                    "turn": row.message.turn,
                    "attempts": row.attempts,
                    "created_at": row.created_at,
                    "next_at": row.next_at,
                    "error": row.error,
                    "text": row.message.text,
                }
                for row in rows
            ]
        )
        return
    table(
        ("ID", "STATUS", "TO", "TRIES", "CREATED", "ERROR", "TEXT"),
        (
            (
                row.id,
                row.status,
                row.message.address.key,
                row.attempts,
                row.created_at.isoformat(" ", "minutes")[:16],
                cut(row.error, 40) or "-",
                cut(row.message.text, 50),
            )
            for row in rows
        ),
    )


@app.command("resend")
def resend(ctx: typer.Context, id: Id, workspace: WorkspaceOption = None) -> None:
    """Send a dead reply, or one of unknown outcome, again; the gateway takes it up within half a minute.

    Example: nanobot outbox resend 17
    """

    async def work(store: "Store") -> bool:
        return await store.outbox.resend(id) is not None

    if not with_store(workspace_of(ctx, workspace), work):
        raise UsageError(f"{id} is no dead or unknown reply; `nanobot outbox list` shows them.")
    typer.echo(f"{id}: will be sent again")


@app.command("drop")
def drop(ctx: typer.Context, id: Id, workspace: WorkspaceOption = None) -> None:
    """Give a reply up for good: it will never be sent."""

    async def work(store: "Store") -> bool:
        return await store.outbox.drop(id)

    if not with_store(workspace_of(ctx, workspace), work):
        raise UsageError(f"{id} is no undelivered reply; `nanobot outbox list` shows them.")
    typer.echo(f"{id}: dropped")

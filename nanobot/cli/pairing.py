"""`nanobot pairing`: who asked to be let in, and who was."""

from typing import TYPE_CHECKING, Annotated

import typer

from nanobot.cli.common import JsonOption, WorkspaceOption, as_json, make_app, table, workspace_of
from nanobot.cli.state import with_store
from nanobot.errors import UsageError
from nanobot.plain import clean

if TYPE_CHECKING:
    from nanobot.messages import Outbound
    from nanobot.pairing import PairingDesk
    from nanobot.store import Pairing, Store

app = make_app("Let people in who wrote to the bot, or turn them away. Works beside a running gateway.")

Code = Annotated[str, typer.Argument(help="The code the person was given, such as ABCD-EFGH.")]


def desk_of(store: "Store") -> "PairingDesk":
    from nanobot.clock import SystemClock  # noqa: PLC0415 - lazy: --help needs no store
    from nanobot.pairing import PairingDesk  # noqa: PLC0415 - lazy: --help needs no store

    async def tell(message: "Outbound") -> None:
        await store.outbox.add(message)  # a gateway that runs finds it there

    return PairingDesk(store.pairings, SystemClock(), tell)


@app.command("list")
def list_command(ctx: typer.Context, workspace: WorkspaceOption = None, json: JsonOption = False) -> None:
    """List people who were let in and requests that wait."""

    async def work(store: "Store") -> "list[Pairing]":
        return await desk_of(store).list()

    empty: list[Pairing] = []
    rows = with_store(workspace_of(ctx, workspace), work, nothing=empty)
    if json:
        as_json(
            [
                {
                    "status": row.status,
                    "channel": row.channel,
                    "sender": row.sender,
                    "name": row.name,
                    "code": row.code,
                    "created_at": row.created_at,
                }
                for row in rows
            ]
        )
        return
    table(
        ("STATUS", "CHANNEL", "SENDER", "NAME", "CODE", "ASKED"),
        (
            (
                row.status,
                row.channel,
                row.sender,
                row.name or "-",
                row.code or "-",
                row.created_at.isoformat(" ", "minutes")[:16],
            )
            for row in rows
        ),
    )


@app.command("approve")
def approve(ctx: typer.Context, code: Code, workspace: WorkspaceOption = None) -> None:
    """Let the person with this code in.

    Example: nanobot pairing approve ABCD-EFGH
    """

    async def work(store: "Store") -> "Pairing | None":
        return await desk_of(store).approve(code)

    typer.echo(f"{_who(with_store(workspace_of(ctx, workspace), work))} may talk to the bot now")


@app.command("deny")
def deny(ctx: typer.Context, code: Code, workspace: WorkspaceOption = None) -> None:
    """Turn the person with this code away."""

    async def work(store: "Store") -> "Pairing | None":
        return await desk_of(store).deny(code)

    typer.echo(f"{_who(with_store(workspace_of(ctx, workspace), work))} was turned away")


@app.command("revoke")
def revoke(
    ctx: typer.Context,
    channel: Annotated[str, typer.Argument(help="Such as telegram.")],
    sender: Annotated[str, typer.Argument(help="The person's id on that platform.")],
    workspace: WorkspaceOption = None,
) -> None:
    """Take the permission of somebody back.

    Example: nanobot pairing revoke telegram 123456
    """

    async def work(store: "Store") -> bool:
        return await desk_of(store).revoke(channel, sender)

    if not with_store(workspace_of(ctx, workspace), work):
        raise UsageError(f"{sender} of {channel} is not paired; `nanobot pairing list` shows who is.")
    typer.echo(f"{sender} of {channel} may not talk to the bot any more")


def _who(pairing: "Pairing | None") -> str:
    if pairing is None:
        raise UsageError("No request waits with this code: it is wrong, used or older than ten minutes.")
    name = f" ({pairing.name})" if pairing.name else ""
    return clean(f"{pairing.sender}{name} of {pairing.channel}")

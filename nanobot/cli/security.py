"""`nanobot security`: the encryption of the state, its keys and how far it got."""

import os
from typing import Annotated

import typer

from nanobot.cli.common import WorkspaceOption, existing_workspace, make_app
from nanobot.errors import UsageError
from nanobot.workspace import state_dir

app = make_app("The encryption of the state. [security] encrypt_state = true switches it on.")


@app.command("key")
def key() -> None:
    """Print a new key. It goes into NANOBOT_STATE_KEY; whoever loses it loses the state.

    Example: export NANOBOT_STATE_KEY=$(nanobot security key)
    """
    from nanobot.security import state_key  # noqa: PLC0415 - lazy: --help does not need it

    typer.echo(state_key.new_master())


@app.command("status")
def status(ctx: typer.Context, workspace: WorkspaceOption = None) -> None:
    """Say whether the state is encrypted, with which key, and what is not yet."""
    from nanobot.security import state_key  # noqa: PLC0415 - lazy: --help does not need it
    from nanobot.stores import reseal  # noqa: PLC0415 - as above
    from nanobot.stores.turn_files import TurnFiles  # noqa: PLC0415 - as above

    state = state_dir(existing_workspace(ctx, workspace))
    ring = state_key.read(state)
    if ring is None:
        typer.echo(f"{state}: not encrypted")
        return
    sealer = state_key.opened(state, ring)
    given = state_key.master(ring.master)
    source = given[1] if given else "nowhere"
    rows, files = reseal.remaining(state, sealer)
    typer.echo(
        f"{state}: encrypted with the key {ring.current or '(none any more)'}, kept by the {source}'s {ring.master}"
    )
    typer.echo(f"{rows} rows and {files} files are not written with it yet")
    used = len(TurnFiles(state, sealer).used())
    if used:
        typer.echo(f"{used} files of codex or claude, who work now, are plain until their turns have ended")
    typer.echo(
        "plain by their nature: the workspace's own files, audit.jsonl, logs/ (docs/howto/encrypt-the-state.md)"
    )
    if ring.to_do:
        typer.echo(ring.to_do)


@app.command("rekey")
def rekey(
    ctx: typer.Context,
    workspace: WorkspaceOption = None,
    plain: Annotated[bool, typer.Option("--plain", help="Decrypt everything instead.")] = False,
) -> None:
    """Encrypt everything anew with a new key; also what is still plain. No gateway may run.

    With NANOBOT_STATE_KEY_NEW set, that is the owner's key afterwards. An interrupted run is taken up by the next one;
    until then everything can be read with both variables set.
    """
    from nanobot.security import state_key  # noqa: PLC0415 - lazy: --help does not need it
    from nanobot.stores import reseal  # noqa: PLC0415 - as above
    from nanobot.stores.lock import StateLock  # noqa: PLC0415 - as above

    state = state_dir(existing_workspace(ctx, workspace))
    if not state.is_dir():
        raise UsageError(f"There is no state in {state} yet. Set encrypt_state = true and start the gateway.")
    with StateLock(state):
        ring = state_key.read(state)
        owner = None
        text = os.environ.get(state_key.NEW_VARIABLE, "").strip()
        if text:
            owner = state_key.parse(text, state_key.NEW_VARIABLE)
        elif ring is not None and ring.settled and not plain:
            owner = state_key.renewed_in_keyring(ring)
        done = reseal.reseal(state, owner, plain=plain)
        now = state_key.read(state)
        if ring is not None and (now is None or now.master != ring.master):
            state_key.forget(ring.master)
    typer.echo(f"{done.rows} rows and {done.files} files written {'in plain' if plain else 'with a new key'}")
    if text and not plain:
        typer.echo(f"From now on NANOBOT_STATE_KEY is what {state_key.NEW_VARIABLE} holds; unset the latter.")

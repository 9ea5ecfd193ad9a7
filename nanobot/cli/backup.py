"""`nanobot backup`: a whole workspace in one file, taken while the gateway runs."""

import errno
import gzip
import io
import os
import sqlite3
import stat
import tarfile
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from nanobot import os_errors
from nanobot.cli.common import WorkspaceOption, existing_workspace
from nanobot.errors import NanobotError, UsageError
from nanobot.workspace import state_dir

AWAY = (errno.ENOENT, errno.ELOOP, errno.ENXIO)  # gone, or a link or a socket by now
DATABASE = "gateway.db"
# Made anew by the next gateway, or of no use to it; and the database's own files, whose copy comes from SQLite.
LEFT_OUT = (
    "gateway.lock",
    DATABASE,
    f"{DATABASE}-wal",
    f"{DATABASE}-shm",
    "search.db",
    "search.db-wal",
    "search.db-shm",
)


def backup(
    ctx: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Where to; else nanobot-<time>.tar.gz in this folder."),
    ] = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Write the whole workspace, secrets included, to a .tar.gz that only you can read. The gateway may run meanwhile.

    To restore: unpack it into an empty folder and name that with -w. Let only one of the two run: both would answer.
    """
    source = existing_workspace(ctx, workspace)
    target = file or Path(f"nanobot-{datetime.now(UTC):%Y%m%d-%H%M%S}.tar.gz")
    if target.resolve().is_relative_to(source.resolve()):
        raise UsageError(
            f"{target.absolute()} lies in the workspace, where the agent could read its secrets and the next backup would "
            "hold it once more. Name a file elsewhere."
        )
    if target.exists():
        raise UsageError(f"{target} exists. Name another file, or remove it first.")
    if not target.parent.is_dir():
        raise UsageError(f"There is no folder {target.parent}. Make it first, or name another file.")
    half = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            count = write(source, out, without={half.absolute()})
            out.flush()
            os.fsync(out.fileno())
        half.rename(target)
    except OSError as error:
        raise NanobotError(f"{target} was not written. {os_errors.sentence(error)}") from error
    except sqlite3.Error as error:
        raise NanobotError(
            f"{target} was not written: {DATABASE}: {error}. `nanobot doctor` looks at the disk and its rights."
        ) from error
    finally:
        half.unlink(missing_ok=True)
    typer.echo(f"{target}: {count} files of {source}, {target.stat().st_size / 1e6:.1f} MB")
    typer.echo(f"To restore: mkdir DIR && tar xzf {target} -C DIR && nanobot gateway -w DIR")


def write(source: Path, out: BinaryIO, without: set[Path]) -> int:
    """Write the workspace as gzipped tar; returns the number of files.

    The database comes first. A turn that ends meanwhile is then in its session's file but not in the database, which
    is what a crash before the commit leaves, and is mended like one; the other way round its words would be lost.
    """
    with gzip.open(out, "wb", compresslevel=6) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        count = 0
        state = state_dir(source)
        if (state / DATABASE).is_file():
            copy = snapshot(state / DATABASE)
            found = tarfile.TarInfo(f"{state.name}/{DATABASE}")
            found.size, found.mode, found.mtime = len(copy), 0o600, int((state / DATABASE).stat().st_mtime)
            archive.addfile(found, io.BytesIO(copy))
            count += 1
        for path in files(source, without | {state / name for name in LEFT_OUT}):
            count += add(archive, path, path.relative_to(source).as_posix())
    return count


def snapshot(database: Path) -> bytes:
    """A consistent copy of a live database, by SQLite's own backup; it is small, since the mailbox is pruned."""
    with (
        closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, timeout=30)) as live,
        closing(sqlite3.connect(":memory:")) as copy,
    ):
        live.backup(copy)
        return copy.serialize()


def files(folder: Path, without: set[Path]) -> Iterator[Path]:
    """All files and links below, folders before what they hold; sockets and pipes are no state."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path = Path(entry.path)
        if path in without:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield path
            yield from files(path, without)
        elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
            yield path


def add(archive: tarfile.TarFile, path: Path, name: str) -> int:
    """Add one; a file that grows is taken as long as it was, one that went away meanwhile is not missed."""
    try:
        if path.is_symlink() or path.is_dir():
            archive.add(path, name, recursive=False)
            return 0
        # By now it may be a pipe, which would hold us for ever, or a link to anywhere.
        with os.fdopen(
            os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb"
        ) as file:
            found = archive.gettarinfo(arcname=name, fileobj=file)
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return 0
            archive.addfile(found, file)
    except OSError as error:
        if error.errno not in AWAY:
            raise
        return 0
    return 1

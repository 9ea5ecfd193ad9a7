"""The bubblewrap command line: what a command sees of the machine, and whether that works here.

Inside: the workspace read-write, /usr and a few files of /etc read-only, its own /tmp, /proc and /dev, no network
unless given, no capabilities, no keyrings, own process namespace. State, configuration and channels are covered by empty mounts
that cannot be removed or renamed.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from nanobot.errors import Refused
from nanobot.security import seccomp
from nanobot.security.paths import Boundary

INSTALL = "install bubblewrap (apt-get install bubblewrap, dnf install bubblewrap)"
_PROBE_SECONDS = 10.0
_TMP_BYTES = 512 << 20
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "fonts", "group", "hosts", "ld.so.cache", "ld.so.conf",
    "ld.so.conf.d", "localtime", "magic", "mime.types", "nsswitch.conf", "passwd", "pki/ca-trust", "pki/tls/certs",
    "protocols", "services", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "timezone",
)  # fmt: skip
_EMPTY = "/dev/null"
_FILTERED = ("/bin/sh", "-c", 'exec 9<"$0" && exec "$@"')  # the descriptor that bwrap takes its filter from


def command(
    inner: Sequence[str],
    *,
    boundary: Boundary,
    working_dir: Path,
    network: bool = False,
    processes: int = 0,
    covered: Sequence[Path] = (),
    looking: bool = False,
) -> list[str]:
    """The command line that runs `inner` in the sandbox; `processes` bounds how many it may have at once (0 = no).

    `covered` are resolved paths of programs that are not there inside; `looking` is for a command that only looks:
    nothing of the working tree can be changed, and nothing is made in it to be covered. Raises Refused where bubblewrap is missing or where a hidden place is a link, which could be replaced from inside.
    """
    program, version = _found()
    if not program:
        raise Refused(f"bwrap was not found: {INSTALL}")
    line = [
        *_FILTERED,
        seccomp.place(),
        program,
        "--seccomp",
        "9",
        "--unshare-all",
        "--unshare-user",
        "--die-with-parent",
        "--new-session",
        "--hostname",
        "sandbox",
    ]
    line += ["--cap-drop", "ALL"]
    if version >= (0, 8):
        line += ["--disable-userns"]
    if network:
        line += ["--share-net", "--ro-bind-try", os.path.realpath("/etc/resolv.conf"), "/etc/resolv.conf"]
    line += _system()
    for place in covered:
        if str(place).startswith(tuple(f"{where}/" for where in _SYSTEM)):
            line += ["--ro-bind", _EMPTY, str(place)]
    # Read-only as a whole: a gateway run by root keeps its user id inside, and kernel settings go by that alone.
    line += ["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"]
    # What is written there is the machine's memory, and no limit of a process counts it.
    for own in ("/dev/shm", "/tmp"):  # noqa: S108 - the sandbox's own
        if version >= (0, 6):
            line += ["--size", str(_TMP_BYTES), "--perms", "1777"]
        line += ["--tmpfs", own]
    line += ["--remount-ro", "/dev"]
    bind = "--ro-bind" if looking else "--bind"
    line += [bind, str(boundary.root), str(boundary.root), *_covers(boundary, there=looking)]
    line += ["--remount-ro", "/", "--chdir", str(working_dir), "--"]
    return [*line, *_bounded(inner, processes)]


def program() -> Path | None:
    """The bubblewrap that would be run, resolved; None where there is none."""
    path = shutil.which("bwrap")
    return Path(os.path.realpath(path)) if path else None


def probe() -> str:
    """Why commands cannot be sandboxed here, with the remedy; "" where they can. Runs the sandbox once."""
    try:
        return _tried() if _found()[0] else f"bwrap was not found: {INSTALL}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bwrap cannot be run: {error}"


def usable() -> bool:
    """Like `probe`, with a good answer remembered; a bad one is asked again, so installing bubblewrap is enough."""
    found = _found()
    if found in _worked:
        return True
    if probe():
        return False
    _worked.add(found)
    return True


_worked: set[tuple[str, tuple[int, ...]]] = set()


def _tried() -> str:
    with tempfile.TemporaryDirectory(prefix="nanobot-probe-") as folder:
        boundary = Boundary(Path(folder))
        inner = ["/bin/sh", "-c", "test -w . && test ! -e /etc/shadow"]
        done = subprocess.run(  # noqa: S603 - our own command line
            command(inner, boundary=boundary, working_dir=boundary.root),
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    if done.returncode == 0:
        return ""
    said = done.stderr.decode("utf-8", "replace").strip()[:300]
    return (
        f"bwrap does not work here: {said or f'exit code {done.returncode}'}. "
        "Allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, or "
        "kernel.apparmor_restrict_unprivileged_userns=0); in a container also a seccomp profile that allows them"
    )


@cache
def _version_of(path: str, changed: float) -> tuple[int, ...]:
    del changed  # part of the cache's key: an upgraded program is asked again
    done = subprocess.run([path, "--version"], capture_output=True, timeout=_PROBE_SECONDS, check=False)  # noqa: S603 - found on our PATH
    return tuple(int(number) for number in re.findall(rb"\d+", done.stdout)[:3])


def _found() -> tuple[str, tuple[int, ...]]:
    path = shutil.which("bwrap")
    return (path, _version_of(path, Path(path).stat().st_mtime)) if path else ("", ())


def _system() -> list[str]:
    """The system, read-only; links such as /bin -> usr/bin stay links."""
    line: list[str] = []
    for place in _SYSTEM:
        if Path(place).is_symlink():
            line += ["--symlink", str(Path(place).readlink()).lstrip("/"), place]
        else:
            line += ["--ro-bind-try", place, place]
    for name in _ETC:
        line += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return line


def _covers(boundary: Boundary, *, there: bool) -> list[str]:
    """Mounts over what is hidden or read-only, whether it exists or not: else a command could put its own there.

    With `there` only over what exists, which is enough where nothing can be made.
    """
    line: list[str] = []
    for place in (*boundary.hidden, *boundary.read_only):
        if not place.is_relative_to(boundary.root) or any(
            other in place.parents for other in boundary.hidden
        ):
            continue
        if there and not place.exists():
            continue
        if place.is_symlink() or place.parent != boundary.root:
            raise Refused(
                f"{place} is a link or lies deeper inside {boundary.root}, where a command could replace it",
                "make it a real directory or a bind mount at the top of the workspace, or keep it outside",
            )
        if place in boundary.read_only and place.exists():
            line += ["--ro-bind", str(place), str(place)]
        elif place.is_dir() or not place.suffix:
            line += ["--tmpfs", str(place), "--remount-ro", str(place)]
        else:
            line += ["--ro-bind", _EMPTY, str(place)]
    return line


def _bounded(inner: Sequence[str], processes: int) -> list[str]:
    """The limit is set inside, where only the command's own processes count."""
    if not processes:
        return [*inner]
    script = '{ ulimit -u "$1" || ulimit -p "$1"; } 2>/dev/null; shift; exec "$@"'
    return ["/bin/sh", "-c", script, "sh", str(processes), *inner]

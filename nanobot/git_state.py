"""The state of a git repository, as git itself tells it, within a deadline.

One shell runs all of git's commands, in the sandbox where there is one: a repository's configuration may name programs
that git runs, and an agent may have written it. Where there is no sandbox, what could run them is left out.
"""

import asyncio
import hashlib
import re
from functools import partial
from pathlib import Path

import msgspec

from nanobot.errors import NanobotError, Refused
from nanobot.security import environment, process
from nanobot.security.context import SecurityContext
from nanobot.security.paths import HIDDEN

GIT_SECONDS = 10.0
MOST_CHANGES = 1_000  # looked at
MOST_COMMITS = 100_000  # counted
_OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")  # SHA-1, or SHA-256
_QUIET = (
    "-c core.fsmonitor=false -c core.hooksPath=/dev/null -c core.pager=cat -c core.quotePath=true "
    "-c log.showSignature=false -c gc.auto=0"
)
# What follows a NUL is one answer. The first says why there is none; $1 is not empty where all may be asked.
_SCRIPT = f"""
set -f
own="$1"; shift
ask() {{ git {_QUIET} $own "$@"; }}
ask rev-parse --show-toplevel 2>&1 || exit 1
exec 2>/dev/null
printf '\\0'; ask rev-parse --verify -q HEAD
printf '\\0'; ask symbolic-ref -q --short HEAD
printf '\\0'; ask config --get remote.origin.url
printf '\\0'; ask log -1 --format=%cI
printf '\\0'; ask count-objects -v
printf '\\0'; ask rev-list --count --max-count={MOST_COMMITS} HEAD
[ -z "$own" ] || {{ printf '\\0'; ask status --porcelain -- "$@" | head -n {MOST_CHANGES} | cut -c 1-2; printf '\\0'; }}
"""
_TRUSTED = "-c safe.directory=*"  # whose it is does not matter where nothing can come of it


class GitState(msgspec.Struct, frozen=True):
    """A repository, or `is_repository` False. An unborn branch has no commit, a detached head no branch."""

    path: str  # absolute
    is_repository: bool = False
    branch: str = ""
    commit: str = ""
    dirty: bool | None = (
        None  # None: not looked at, since there is no sandbox to look in, or git took too long
    )
    changes: int = 0  # changed and untracked, up to MOST_CHANGES
    remote: str = ""
    commits: int = 0  # up to MOST_COMMITS
    last_commit_at: str = ""
    size_mb: float = 0.0  # of what git stores
    problem: str = ""  # why nothing, or not all, is known

    def __post_init__(self) -> None:
        if not self.path.startswith("/"):
            raise ValueError(f"{self.path!r} is no absolute path")
        if self.commit and not _OID.fullmatch(self.commit):
            raise ValueError(f"{self.commit!r} is no commit")
        if self.is_repository and not self.branch and not self.commit:
            raise ValueError("a repository has a branch or a commit")
        if min(self.changes, self.commits, self.size_mb) < 0:
            raise ValueError("a count is never below 0")

    @property
    def detached(self) -> bool:
        return self.is_repository and not self.branch

    @property
    def unborn(self) -> bool:
        return self.is_repository and not self.commit

    @property
    def clean(self) -> bool:
        """Nothing changed, as far as was looked."""
        return self.is_repository and self.dirty is False

    @property
    def identifier(self) -> str:
        """A short name that stays: by its remote, else by its directory and commit, else by its directory."""
        name = Path(self.path).name
        if not self.is_repository:
            return f"project_{name}"
        text = self.remote or f"{name}_{self.commit[:8]}"
        return f"git_{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    def told(self) -> str:
        """In one line, for people and models; empty where there is no repository and nothing to say."""
        if not self.is_repository:
            return f"no repository: {self.problem}" if self.problem else ""
        if self.unborn:
            head = f"{self.branch}, no commit yet"
        else:
            head = f"{self.branch or 'detached'} at {self.commit[:8]}"
        parts = [head]
        if self.changes:
            more = "+" if self.changes >= MOST_CHANGES else ""
            parts.append(f"{self.changes}{more} changed file{'s' if self.changes > 1 else ''}")
        elif self.dirty is False:
            parts.append("clean")
        if self.problem:
            parts.append(self.problem)
        return ", ".join(parts)


async def git_state(security: SecurityContext) -> GitState:
    """Of the repository that a working tree is or lies in, as far as tools may reach it. Never raises for git's sake."""
    place = security.boundary.root
    top, problem = await asyncio.to_thread(_repository, security)
    if top is None:
        return GitState(str(place), problem=problem)
    output, timed_out = await _asked(top, place)
    if output is None:
        return GitState(str(place), problem="git could not be started")
    answers = output.split("\0")
    if len(answers) < 2:
        return GitState(str(place), problem="git took too long" if timed_out else _reason(answers[0]))
    answers = [one.strip() for one in answers] + [""] * 8
    _, commit, branch, remote, when, objects, count, status, *_ = answers
    looked = len(output.split("\0")) > 8  # the status was told to its end
    changed = status.split("\n") if status else []
    if not branch and not _OID.fullmatch(commit):
        return GitState(str(place), problem="git took too long" if timed_out else "its HEAD cannot be read")
    return GitState(
        str(place),
        is_repository=True,
        branch=branch,
        commit=commit if _OID.fullmatch(commit) else "",
        dirty=bool(changed) if looked else None,
        changes=len(changed) if looked else 0,
        remote=shown(remote),
        commits=int(count) if count.isdecimal() else 0,
        last_commit_at=when,
        size_mb=_stored(objects),
        problem="git took too long to find what changed" if timed_out else "",
    )


def _repository(security: SecurityContext) -> tuple[SecurityContext | None, str]:
    """The context of the nearest tree with a .git, if tools may reach it; no process is needed to see that none is."""
    root = security.boundary.root
    for place in (root, *root.parents):
        if not (place / ".git").exists():
            continue
        try:
            return security.within(place), ""
        except Refused:
            return None, f"that of {place} lies outside what tools may reach"
    return None, ""


async def _asked(security: SecurityContext, place: Path) -> tuple[str | None, bool]:
    """What the script says, and whether it was stopped."""
    top = security.boundary.root
    safe = not await asyncio.to_thread(security.sandbox_problem)
    # The sandbox covers what is nanobot's own, which git would take for changes.
    own = [f":(top,exclude){name}" for name in HIDDEN]
    line = ["/bin/sh", "-c", _SCRIPT, "git", _TRUSTED if safe else "", str(place), *own]
    variables = {
        **environment.scrubbed(top),
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(top.parent),
    }
    try:
        if safe:
            line = await asyncio.to_thread(partial(security.sandboxed, line, top, looking=True))
        done = await process.run(line, cwd=top, environment=variables, timeout=GIT_SECONDS)
    except (OSError, NanobotError):
        return None, False
    return done.output, done.timed_out


def _reason(text: str) -> str:
    """Git's own words, as a reason."""
    line = next((one for one in text.strip().split("\n") if one), "git said nothing")
    if "not found" in line and "git" in line and "fatal" not in line:
        return "git is not installed"
    return line.removeprefix("fatal: ")[:200]


def _stored(objects: str) -> float:
    """Megabytes of `git count-objects -v`, which counts in KiB."""
    sizes = re.findall(r"^(?:size|size-pack): (\d+)$", objects, re.MULTILINE)
    return round(sum(int(one) for one in sizes) * 1024 / 1e6, 2)


def shown(remote: str) -> str:
    """Without what may be a password."""
    return re.sub(r"//[^/@]*@", "//", remote)

"""What a session may do: one value that every tool and every executor asks, and the only place that answers.

Made once from the configuration; `within` gives the same for another working tree, if that tree is allowed.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from nanobot.errors import Refused, ToolError
from nanobot.security import environment, process, programs, sandbox
from nanobot.security.counting import FileCount
from nanobot.security.levels import RULES, Rules, SecurityLevel, SecuritySettings
from nanobot.security.network import Guard, Lookup, system_lookup
from nanobot.security.paths import Boundary

REMEDY = "install bubblewrap, or set [security] allow_unsandboxed = true"


class Prepared(msgspec.Struct, frozen=True):
    """A command as it is to be started."""

    line: Sequence[str]
    environment: Mapping[str, str]
    limits: process.Limits
    sandboxed: bool


class SecurityContext(msgspec.Struct, frozen=True):
    """The containment, rules and limits of one working tree."""

    level: SecurityLevel
    rules: Rules
    boundary: Boundary
    network: bool  # of commands in the sandbox
    plain_exec: bool  # commands may run without a sandbox where there is none
    hosts: Sequence[str]  # that web_fetch reaches although they are not public
    exec_seconds: float
    max_file_bytes: int
    allowed_dirs: Sequence[str]  # besides the workspace; "*" is any
    home: Path  # the workspace, which is always allowed
    counts: FileCount

    @classmethod
    def of(
        cls,
        settings: SecuritySettings,
        workspace: Path,
        hidden: Sequence[Path] = (),
        allowed_dirs: Sequence[str] = (),
    ) -> "SecurityContext":
        """ValueError for an unknown level, which the configuration refuses earlier."""
        level = SecurityLevel(settings.level)
        rules = RULES[level]
        boundary = Boundary(workspace, hidden)
        return cls(
            level=level,
            rules=rules,
            boundary=boundary,
            network=rules.network == "always" or (rules.network == "configured" and settings.network),
            plain_exec=rules.plain_exec or settings.allow_unsandboxed,
            hosts=tuple(settings.allowed_hosts),
            exec_seconds=settings.exec_timeout,
            max_file_bytes=settings.max_file_mb << 20,
            allowed_dirs=tuple(allowed_dirs),
            home=boundary.root,
            counts=FileCount(rules.files),
        )

    # --- directories -------------------------------------------------------------------------------------------

    def within(self, root: Path) -> "SecurityContext":
        """For another working tree. Refused where it is not allowed, also if it has become a link since it was."""
        boundary = self.boundary
        if root in (boundary.given, boundary.root):
            return self
        place = Path(os.path.realpath(root))
        if place == boundary.root:
            return self
        self._refuse_foreign(place, self.home)
        return msgspec.structs.replace(self, boundary=boundary.within(place))

    def working_dir(self, asked: str | None, default: Path) -> Path:
        """Where a sub-session works: the default, or what was asked for if it is allowed; real and there.

        Nothing configured allows the default alone; "*" allows any; else a listed directory or one below it. Compared
        are real paths, so neither a link nor `..` nor a name that merely begins alike leads out. Raises ToolError.
        """
        default = Path(os.path.realpath(default))
        if not asked:
            return default
        if "\0" in asked:
            raise ToolError("the working directory holds a NUL character")
        place = Path(os.path.realpath(default / asked))
        if place != default:
            self._refuse_foreign(place, default)
        if not place.is_dir():
            raise ToolError(
                f"working directory {place} does not exist or is no directory", self._hint(default)
            )
        return place

    def _refuse_foreign(self, place: Path, default: Path) -> None:
        hidden = (*self.boundary.hidden, *self.boundary.read_only)
        if any(place.is_relative_to(one) for one in hidden):
            raise Refused(f"{place} belongs to nanobot itself", self._hint(default))
        fits = place == default or "*" in self.allowed_dirs
        if not fits and not any(place.is_relative_to(one) for one in self._listed()):
            raise Refused(f"working directory {place} is not allowed", self._hint(default))

    def _listed(self) -> list[Path]:
        return [
            Path(os.path.realpath(os.path.expanduser(one)))  # noqa: PTH111 - a text stays one
            for one in self.allowed_dirs
            if one != "*"
        ]

    def _writable(self) -> tuple[Path, ...]:
        """Where tools may write, now or in another session."""
        return (self.home, self.boundary.root, *self._listed())

    def _hint(self, default: Path) -> str:
        names = (
            "any" if "*" in self.allowed_dirs else ", ".join(str(one) for one in [default, *self._listed()])
        )
        return f"allowed: {names}"

    # --- files ---------------------------------------------------------------------------------------------------

    def read(self, path: str) -> bytes:
        """A whole file of the working tree, if it is not too large."""
        return self.boundary.read(path, self.max_file_bytes)

    def write(self, path: str, data: bytes) -> bool:
        """Replace or create a file, durable on return; True where it is new. Raises Refused or ToolError."""
        self.fits(path, len(data))
        self.counts.admit(self.boundary, path)
        return self.boundary.write(path, data)

    def fits(self, path: str, size: int) -> None:
        """ToolError where a file is larger than tools may read, write or attach."""
        if size > self.max_file_bytes:
            raise ToolError(
                f"{path}: {size:,} bytes are more than the {self.max_file_bytes:,} allowed ([security] max_file_mb)"
            )

    # --- commands ------------------------------------------------------------------------------------------------

    @property
    def limits(self) -> process.Limits:
        return process.Limits(file_mb=self.max_file_bytes >> 20, memory_mb=self.rules.memory_mb)

    def command(self, inner: Sequence[str], working_dir: Path | None = None) -> Prepared:
        """How a command of the agent's is started: in the sandbox, or without where that is allowed. Blocks.

        Raises Refused, with the remedy, where it may not be started at all.
        """
        place = working_dir or self.boundary.root
        variables = environment.scrubbed(self.boundary.root)
        problem = self.sandbox_problem()
        if not problem:
            return Prepared(
                self.sandboxed(inner, place, network=self.network), variables, self.limits, sandboxed=True
            )
        if not self.plain_exec:
            raise Refused(f"exec is off at security level {self.level}: {problem}", REMEDY)
        entered = ["/bin/sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", os.fspath(place), *inner]
        return Prepared(entered, variables, self.limits, sandboxed=False)

    def sandbox_problem(self) -> str:
        """Why commands cannot be sandboxed; empty where they can. May run the sandbox once, so it blocks."""
        program = sandbox.program()
        if program is not None and self.rules.programs != "any":
            try:
                programs.refuse_planted(program, self._writable())
            except Refused as error:
                return str(error)
        return "" if sandbox.usable() else sandbox.probe() or "bwrap does not work here"

    def sandboxed(
        self, inner: Sequence[str], working_dir: Path, *, network: bool = False, looking: bool = False
    ) -> list[str]:
        """The command line of the sandbox; `looking` changes nothing in the tree. Raises Refused where there is none."""
        return sandbox.command(
            inner,
            boundary=self.boundary,
            working_dir=working_dir,
            network=network,
            processes=self.rules.processes,
            covered=() if self.rules.rights_programs else programs.of_rights(),
            looking=looking,
        )

    # --- outside agents --------------------------------------------------------------------------------------------

    def program(self, name: str, configured: str = "") -> str:
        """The resolved path of an outside agent's program. `configured` is how the owner named it. Raises Refused."""
        program = programs.resolve(name)
        if not self.rules.rights_programs:
            programs.refuse_rights(program)
        if self.rules.programs != "any":
            programs.refuse_planted(program, self._writable())
        if self.rules.programs == "named" and not os.path.isabs(os.path.expanduser(configured)):  # noqa: PTH111, PTH117
            raise Refused(
                f"{program} is not started at security level {self.level}: no path to it is configured",
                "set command to its absolute path in the table of [executors]",
            )
        return str(program)

    def agent_dir(self, place: Path) -> None:
        """Refused where an outside agent may not work: it runs as the gateway's account, beyond this sandbox."""
        root = self.within(place).boundary.root
        held = [one for one in self.boundary.hidden if one.is_relative_to(root)]
        if held and not self.rules.agents_at_state:
            raise Refused(
                f"{root} holds {held[0]}, so outside agents may not work there at security level {self.level}",
                "name another directory in [delegation] allowed_dirs, and as working_dir",
            )

    def agent_environment(self, prefixes: Sequence[str], extra: Mapping[str, str]) -> dict[str, str]:
        """Variables of an outside agent: its own settings and keys, no others. `extra` is configured, and wins."""
        return environment.passed(os.environ, prefixes if self.rules.own_keys else (), extra)

    def refuse_plain_agent(self, name: str, remedy: str) -> None:
        """Refused where an outside agent is to work without its own sandbox and may not."""
        if not self.rules.plain_agents:
            raise Refused(
                f"{name} may not run without a sandbox at security level {self.level}",
                f'{remedy}, or [security] level = "medium"',
            )

    # --- the web ---------------------------------------------------------------------------------------------------

    def guard(self, lookup: Lookup = system_lookup) -> Guard:
        """Which hosts web_fetch reaches."""
        return Guard(self.hosts, only_allowed=self.rules.web == "listed", lookup=lookup)

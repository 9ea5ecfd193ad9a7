"""Skills: folders with a SKILL.md that teach the agent a kind of work; it is told the list and reads one on demand.

A look at the disk costs one stat per root and per SKILL.md, at most once a second; a file is read and parsed only when
it changed. So a new or edited skill is known within a second, and a turn pays next to nothing for the list.
"""

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from loguru import logger

from nanobot.errors import ToolError
from nanobot.frontmatter import BadFrontmatter, parse
from nanobot.security.pins import Pins
from nanobot.textfile import TextFile
from nanobot.tool import FunctionTool, ToolContext, ToolResult, tool

FILE = "SKILL.md"
RECHECK = 1.0  # seconds between looks at the disk
REQUIREMENTS_RECHECK = 30.0  # seconds between searches for required programs
MAX_DESCRIPTION = 1_024  # characters
MAX_EXAMPLE = 120

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}$")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_INVOKED = re.compile(r"(?<![\w$\\/.{-])\$([a-z][a-z0-9-]*)(?![\w({=\[/])")


class Skill(msgspec.Struct, frozen=True):
    """A skill as its head describes it. `missing` names what it requires and this machine lacks."""

    name: str
    description: str
    folder: Path
    always: bool = False  # its text is part of every system prompt
    example: str = ""  # what somebody might say to use it; shown where a chat begins
    bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def available(self) -> bool:
        return not self.missing


class Skills:
    """The skills of all roots, nearest owner first: a workspace's skill replaces a shipped one of the same name.

    The workspace's `skills` comes first even if it is not there yet: the agent may make it. A broken SKILL.md is
    logged once and passed over; the next root's skill of that name then counts.
    """

    def __init__(
        self,
        workspace: Path,
        roots: Sequence[Path],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        pins: Pins | None = None,
    ) -> None:
        self.workspace = workspace
        self._pins = pins
        self._refused: dict[str, str] = {}
        own = workspace / "skills"
        # The agent can write links there; what they lead to is not its own.
        self._roots = [_Root(own, workspace), *(_Root(root) for root in roots if root != own)]
        self._monotonic = monotonic
        self._next_look = self._next_requirements = float("-inf")
        self._skills: tuple[Skill, ...] = ()
        self._bodies: dict[str, str] = {}

    def list(self) -> tuple[Skill, ...]:
        """All skills by name, those with something missing too. The same object while nothing changed."""
        now = self._monotonic()
        if now >= self._next_look:
            self._next_look = now + RECHECK
            looked = [root.changed() for root in self._roots]
            if any(looked) or now >= self._next_requirements:
                self._next_requirements = now + REQUIREMENTS_RECHECK
                self._gather()
        return self._skills

    def get(self, name: str) -> Skill | None:
        return next((skill for skill in self.list() if skill.name == name), None)

    def invoked(self, text: str) -> Sequence[Skill]:
        """The skills a message calls by `$name`, in its order; not in code, and `$100` or `$PATH` are none."""
        if "$" not in text:
            return []
        known = {skill.name: skill for skill in self.list()}
        names = dict.fromkeys(_INVOKED.findall(_CODE.sub(" ", text)))
        return [known[name] for name in names if name in known]

    def examples(self, most: int) -> tuple[str, ...]:
        """What one might say, from the skills that can be used; the workspace's own come first."""
        usable = [skill for skill in self.list() if skill.example and skill.available]
        usable.sort(key=lambda skill: not skill.folder.is_relative_to(self.workspace))
        return tuple(skill.example for skill in usable[:most])

    def body(self, skill: Skill) -> str:
        """What the model is given to read: the text of SKILL.md, where its files are, and what is missing."""
        if reason := self.refuses(skill):
            return f"The skill {skill.name} is not used: {reason}."
        parts = [f'<skill name="{skill.name}" folder="{self.shown(skill.folder)}">']
        if skill.missing:
            parts.append(
                f"Not usable yet: {', '.join(skill.missing)} missing. Tell the user how to provide it."
            )
        return "\n".join([*parts, self._bodies.get(skill.name, ""), "</skill>"])

    def refuses(self, skill: Skill) -> str:
        """Why a skill of the workspace must not be used, said once in the log; "" where it may."""
        if self._pins is None or not skill.folder.is_relative_to(self.workspace):
            return ""
        try:
            reason = self._pins.refuses(skill.name, skill.folder)
        except (OSError, ValueError) as error:
            reason = f"its pin cannot be checked: {error}"
        if reason and self._refused.get(skill.name) != reason:
            logger.warning("The skill {} is not used: {}", skill.name, reason)
        self._refused[skill.name] = reason
        return reason

    def file(self, skill: Skill, name: str) -> str:
        """Another text file of a skill. Raises ToolError."""
        own = skill.folder.is_relative_to(self.workspace)
        # Not within its folder as it is now: that may have become a link since it was looked at.
        file = TextFile(skill.folder / name, within=self.workspace if own else skill.folder)
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise ToolError(f"{name} of {skill.name} leads out of its folder.")
        file.changed()
        if not file.exists or file.problem:
            raise ToolError(f"{name} of {skill.name} {file.problem or 'does not exist'}.")
        return file.text

    def shown(self, folder: Path) -> str:
        """A folder as the agent may name it: relative to the workspace where it lies in it."""
        return str(folder.relative_to(self.workspace) if folder.is_relative_to(self.workspace) else folder)

    def _gather(self) -> None:
        """Make the list anew; keeps the old object where it comes out the same."""
        found: dict[str, tuple[Skill, str]] = {}
        for root in self._roots:
            for skill, body in root.skills():
                if skill.name not in found and not self.refuses(skill):
                    found[skill.name] = (skill, body)
        skills = tuple(_checked(found[name][0]) for name in sorted(found))
        bodies = {name: body for name, (_, body) in found.items()}
        if skills != self._skills or any(
            skill.always and bodies[skill.name] != self._bodies.get(skill.name) for skill in skills
        ):
            self._skills = skills
        self._bodies = bodies


class _Root:
    """One directory of skill folders, as last seen."""

    def __init__(self, path: Path, within: Path | None = None) -> None:
        self._path = path
        self._within = within
        self._mtime: int | None = -1
        self._files: dict[str, TextFile] = {}
        self._parsed: dict[str, tuple[Skill, str]] = {}

    def changed(self) -> bool:
        changed = False
        try:
            mtime: int | None = self._path.stat().st_mtime_ns
        except OSError:
            mtime = None
        if mtime != self._mtime:
            self._mtime, changed = mtime, True
            names = self._folders() if mtime is not None else []
            self._files = {
                name: self._files.get(name) or TextFile(self._path / name / FILE, within=self._within)
                for name in names
            }
            self._parsed = {name: self._parsed[name] for name in names if name in self._parsed}
        for name, file in self._files.items():
            if file.changed():
                changed = True
                self._parse(name, file)
        return changed

    def skills(self) -> Iterator[tuple[Skill, str]]:
        yield from self._parsed.values()

    def _folders(self) -> list[str]:
        with os.scandir(self._path) as entries:
            return sorted(entry.name for entry in entries if _NAME.match(entry.name) and entry.is_dir())

    def _parse(self, name: str, file: TextFile) -> None:
        self._parsed.pop(name, None)
        if not file.exists:
            return
        problem = file.problem
        if not problem:
            try:
                self._parsed[name] = read(file.text, file.path.parent)
            except BadFrontmatter as error:
                problem = str(error)
        if problem:
            logger.warning("The skill {} is left out: {}", file.path, problem)


def read(text: str, folder: Path) -> tuple[Skill, str]:
    """A SKILL.md as a skill, its requirements not yet looked for, and its body. Raises BadFrontmatter."""
    head, body = parse(text)
    name, description = head.get("name", folder.name), head.get("description", "")
    if name != folder.name:
        raise BadFrontmatter(f"name is {name!r}, but its folder is {folder.name!r}")
    if not isinstance(description, str) or not description.strip():
        raise BadFrontmatter("it needs a description: the agent chooses by it")
    if len(description) > MAX_DESCRIPTION:
        raise BadFrontmatter(f"its description is longer than {MAX_DESCRIPTION} characters")
    # Skills written for other gateways keep these two under metadata.nanobot.
    nested = _mapping(_mapping(head.get("metadata")).get("nanobot"))
    always = head.get("always", nested.get("always", False))
    requires = head.get("requires", nested.get("requires", {}))
    if not isinstance(always, bool):
        raise BadFrontmatter("always must be true or false")
    if requires and not isinstance(requires, Mapping):
        raise BadFrontmatter("requires must be {bins: [...], env: [...]}")
    skill = Skill(
        name=name,
        description=" ".join(description.split()),
        folder=folder,
        always=always,
        example=" ".join(str(head.get("example") or "").split())[:MAX_EXAMPLE],
        bins=_words(requires or {}, "bins"),
        env=_words(requires or {}, "env"),
    )
    return skill, body


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _words(requires: Mapping[str, Any], key: str) -> tuple[str, ...]:
    values = requires.get(key) or []
    if not isinstance(values, list) or not all(isinstance(value, str) and value for value in values):
        raise BadFrontmatter(f"requires.{key} must be a list of words")
    return tuple(values)


def _checked(skill: Skill) -> Skill:
    missing = [name for name in skill.bins if shutil.which(name) is None]
    missing += [f"${name}" for name in skill.env if not os.environ.get(name)]
    return msgspec.structs.replace(skill, missing=tuple(missing))


class ReadSkill(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(description="A skill of the list in the system prompt")]
    file: Annotated[str, msgspec.Meta(description="Another text file of the skill's folder")] = ""


def reader(skills: Skills) -> FunctionTool[ReadSkill]:
    """The tool by which the agent reads a skill, since shipped ones lie outside its workspace."""

    @tool("read_skill", "Read the instructions of a skill before doing that kind of work.", read_only=True)
    async def read_skill(arguments: ReadSkill, _: ToolContext) -> ToolResult:
        skill = skills.get(arguments.name)
        if skill is None:
            names = ", ".join(known.name for known in skills.list()) or "none"
            raise ToolError(f"There is no skill {arguments.name!r}.", f"Known skills: {names}.")
        if reason := skills.refuses(skill):
            raise ToolError(f"The skill {skill.name} is not used: {reason}.")
        return ToolResult(skills.file(skill, arguments.file) if arguments.file else skills.body(skill))

    return read_skill

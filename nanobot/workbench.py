"""What every turn works with: models, prompts, tools, the mailbox and the histories, bundled once at the start."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from nanobot.model import Model
from nanobot.prompts import Prompts
from nanobot.skills import Skills
from nanobot.store import Inbox, Transcripts
from nanobot.surroundings import Surroundings
from nanobot.tools.goal import NAMES
from nanobot.tools.toolbox import Toolbox


class Workbench:
    """Shared by all sessions; holds no session's state. `draining` is set once, when the gateway stops."""

    def __init__(
        self,
        *,
        workspace: Path,
        surroundings: Surroundings,
        inbox: Inbox,
        transcripts: Transcripts,
        prompts: Prompts,
        skills: Skills,
        toolbox: Toolbox,
        model: Callable[[str | None], Model],
        max_steps: int,
        output_limit: int,
        steering: bool,
        attempts: int,
    ) -> None:
        self.workspace = workspace
        self.surroundings = surroundings
        self.inbox = inbox
        self.transcripts = transcripts
        self.prompts = prompts
        self.skills = skills
        self.toolbox = toolbox
        # What is offered while no goal is open: a tool that is always there gets used for what it is not for.
        self.everyday = toolbox.only(name for name in toolbox.names if name not in NAMES)
        self.model = model  # by name; None is the configured default. Raises ConfigError
        self.max_steps = max_steps
        self.output_limit = output_limit
        self.steering = steering
        self.attempts = attempts
        self.draining = False
        self.tool_tokens = len(msgspec.json.encode(toolbox.specs)) // 4

    def max_output(self, model: Model) -> int:
        """Tokens a reply may have: what is configured, but never more than a quarter of a small window."""
        return min(self.output_limit, max(256, model.context_window // 4))

    def skill_bodies(self, text: str) -> Sequence[str]:
        """The texts of the skills a message names as `$name`."""
        if "$" not in text:
            return ()
        return [self.skills.body(skill) for skill in self.skills.invoked(text)]

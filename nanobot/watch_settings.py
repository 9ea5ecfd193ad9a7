"""The `[watchers]` table of config.toml, and the rules that it switches on. Pure."""

import re
from typing import Annotated

from msgspec import Meta, Struct

from nanobot.watch import Action, Watcher, budget, delegation, pattern, progress, quality, scope

Count = Annotated[int, Meta(gt=0)]


class Progress(Struct, frozen=True):
    enabled: bool = True
    same: Count = 3  # equal calls in a row until it is told; three times as many end it


class Budget(Struct, frozen=True):
    enabled: bool = True
    warn_at: Annotated[float, Meta(gt=0, le=1)] = 0.8  # of the time, the tokens or the steps


class Scope(Struct, frozen=True):
    avoid: tuple[str, ...] = ()  # words; empty: off
    action: Action = "nudge"


class Rule(Struct, frozen=True):
    match: str  # a regular expression, case ignored
    message: str
    action: Action = "nudge"


class Delegation(Struct, frozen=True):
    enabled: bool = False
    action: Action = "nudge"


class Quality(Struct, frozen=True):
    enabled: bool = False
    require_tests: bool = True
    max_files: Count = 10
    action: Action = "nudge"


class Watchers(Struct, frozen=True):
    cooldown: Count = 5  # steps until the same watcher is heard again
    progress: Progress = Progress()
    budget: Budget = Budget()
    scope: Scope = Scope()
    pattern: tuple[Rule, ...] = ()
    delegation: Delegation = Delegation()
    quality: Quality = Quality()

    def problems(self) -> list[tuple[str, str]]:
        """Key and reason of what cannot be used: expressions that are none."""
        found = []
        for number, rule in enumerate(self.pattern):
            try:
                re.compile(rule.match)
            except re.error as error:
                found.append((f"watchers.pattern.{number}.match", str(error)))
        return found

    def rules(self) -> list[Watcher]:
        """The watchers that are switched on."""
        found: list[Watcher] = []
        if self.progress.enabled:
            found.append(progress(self.progress.same))
        if self.budget.enabled:
            found.append(budget(self.budget.warn_at))
        if self.scope.avoid:
            found.append(scope(self.scope.avoid, self.scope.action))
        if self.pattern:
            found.append(pattern([(one.match, one.action, one.message) for one in self.pattern]))
        if self.delegation.enabled:
            found.append(delegation(self.delegation.action))
        if self.quality.enabled:
            limits = self.quality
            found.append(
                quality(require_tests=limits.require_tests, max_files=limits.max_files, action=limits.action)
            )
        return found

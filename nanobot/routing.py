"""Where a message goes and who may speak: pure decisions, values in, values out."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

from nanobot.messages import Inbound

CONTROL = (
    "control:"  # prefix of a session's second lane, for commands that must not wait behind a running turn
)


class Verdict(Enum):
    ADMIT = "admit"
    PAIR = "pair"  # unknown, in a direct chat: answered with a pairing code
    IGNORE = "ignore"  # silence: an unknown sender in a group, or a group where the bot was not addressed


class Policy(msgspec.Struct, frozen=True):
    """Who may speak in a channel. `allow_from` None: the channel authenticates its people itself."""

    allow_from: frozenset[str] | None = None
    group_policy: str = "mention"  # mention | open | allowlist
    owner: str = ""  # whom unknown people's requests are shown to: the first that allow_from names

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Policy":
        if "allow_from" not in settings:
            return cls()
        named = [str(one) for one in settings["allow_from"]]
        return cls(
            frozenset(named),
            str(settings.get("group_policy", "mention")),
            next((one for one in named if one != "*"), ""),
        )


def admit(message: Inbound, policy: Policy, *, paired: bool) -> Verdict:
    """Decide about one message; every message is decided anew, a session authorises nobody."""
    if policy.allow_from is None:
        return Verdict.ADMIT
    known = paired or "*" in policy.allow_from or message.sender in policy.allow_from
    if message.private:
        return Verdict.ADMIT if known else Verdict.PAIR
    if not known:
        return Verdict.IGNORE
    if policy.group_policy == "open" or message.mentioned:
        return Verdict.ADMIT
    return Verdict.IGNORE


def control_lane(session: str) -> str:
    return CONTROL + session


def controlled(lane: str) -> str | None:
    """The session a control lane belongs to, or None for a session's own lane."""
    return lane.removeprefix(CONTROL) if lane.startswith(CONTROL) else None

"""Slack's events and what we make of them: values in, values out."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from html import unescape
from typing import Any

import msgspec

# Subtypes that are a person speaking; every other one is bookkeeping.
SPOKEN = frozenset({"", "file_share", "thread_broadcast", "me_message"})
SLACKBOT = "USLACKBOT"
MAX_TEXT = 40_000  # characters of one message; the platform cuts there as well

_ENTITY = re.compile(r"<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_USER = re.compile(r"<@([UW][A-Z0-9]+)(?:\|[^<>]*)?>")


class Me(msgspec.Struct, frozen=True):
    """Who we are in the workspace, as auth.test says."""

    team: str
    user: str
    bot: str
    name: str = ""
    scopes: frozenset[str] = frozenset()
    since: float = 0.0  # by Slack's own clock, in epoch seconds; 0 where it did not say


class File(msgspec.Struct, frozen=True):
    id: str
    name: str
    mime: str
    size: int  # bytes, as the platform claims
    url: str


class Said(msgspec.Struct, frozen=True):
    """A person's message. `text` is still in Slack's markup."""

    team: str
    channel: str
    ts: str
    user: str
    text: str
    thread_ts: str = ""  # of the thread it was written in, if any
    files: tuple[File, ...] = ()
    private: bool = False  # a direct chat with one person
    mentioned: bool = False
    follows_us: bool = False  # the thread hangs on a message of ours
    home: str = ""  # our own team; the sender's differs in channels shared between workspaces

    @property
    def id(self) -> str:
        """What duplicates are known by: a `message` and an `app_mention` of one text differ in event_id, not in this."""
        return f"{self.home}:{self.channel}:{self.ts}"

    @property
    def thread(self) -> str:
        """Where the answer goes: the thread; a new one under the message in channels; none in a direct chat."""
        if self.thread_ts:
            return self.thread_ts
        return "" if self.private else self.ts


def read_message(body: Mapping[str, Any], me: Me) -> Said | None:
    """The person's message in a `message` or `app_mention` event; None where it is none or concerns nobody."""
    event = body.get("event")
    if not isinstance(event, Mapping) or str(event.get("subtype") or "") not in SPOKEN:
        return None
    channel, ts, user = (str(event.get(key) or "") for key in ("channel", "ts", "user"))
    if not (channel and ts and user) or event.get("bot_id") or user in (me.user, SLACKBOT):
        return None
    files = read_files(event.get("files"))
    text = str(event.get("text") or "")[:MAX_TEXT]
    if not text.strip() and not files:
        return None
    private = event.get("channel_type") == "im" or channel.startswith("D")
    return Said(
        team=str(event.get("user_team") or event.get("team") or body.get("team_id") or me.team),
        home=me.team,
        channel=channel,
        ts=ts,
        user=user,
        text=text,
        thread_ts=str(event.get("thread_ts") or ""),
        files=files,
        private=private,
        mentioned=private or event.get("type") == "app_mention" or f"<@{me.user}" in text,
        follows_us=event.get("parent_user_id") == me.user,
    )


def read_edit(body: Mapping[str, Any], me: Me) -> Said | None:
    """The new text of a message that a person changed; its `ts` stays the old one."""
    event = body.get("event")
    if not isinstance(event, Mapping) or event.get("subtype") != "message_changed":
        return None
    inner, before = event.get("message"), event.get("previous_message")
    if not isinstance(inner, Mapping) or not isinstance(before, Mapping):
        return None
    if inner.get("text") == before.get("text"):
        return None  # an unfurled link, a pin: nothing was said
    changed = {**inner, "channel": event.get("channel"), "channel_type": event.get("channel_type")}
    return read_message({**body, "event": changed}, me)


def read_files(value: Any) -> tuple[File, ...]:
    """The files of an event that can be fetched; malformed ones are left out."""
    found = []
    for one in value if isinstance(value, list) else ():
        if not isinstance(one, Mapping):
            continue
        url = one.get("url_private_download") or one.get("url_private")
        if not isinstance(url, str) or not one.get("id"):
            continue
        size = one.get("size")
        found.append(
            File(
                str(one["id"]),
                str(one.get("name") or one.get("title") or one["id"]),
                str(one.get("mimetype") or "application/octet-stream"),
                size if isinstance(size, int) and size > 0 else 0,
                url,
            )
        )
    return tuple(found)


def addressed_elsewhere(text: str, me: Me) -> bool:
    """Whether a text in a thread we follow begins with somebody else's name."""
    found = _USER.match(text.lstrip())
    return found is not None and found.group(1) != me.user and f"<@{me.user}" not in text


def mentioned_users(text: str) -> list[str]:
    return list(dict.fromkeys(_USER.findall(text)))


def plain(text: str, names: Mapping[str, str], me: Me) -> str:
    """Slack's markup as people read it; our own name in front of a text is its address, not a part of it."""
    own = re.compile(rf"^\s*<@{re.escape(me.user)}(?:\|[^<>]*)?>[\s,:]*")

    def entity(found: re.Match[str]) -> str:
        sign, target, label = found.group(1), found.group(2), found.group(3)
        match sign:
            case "@":
                return f"@{label or names.get(target, target)}"
            case "#":
                return f"#{label or target}"
            case "!":
                return label or f"@{target.split('^')[0]}"
            case _:
                bare = target.removeprefix("mailto:").removeprefix("tel:")
                return target if not label or label in (target, bare) else f"[{label}]({target})"

    return clean(unescape(_ENTITY.sub(entity, own.sub("", text))))


def clean(text: str) -> str:
    """Without characters that no message may hold: controls, lone surrogates."""
    return _CONTROL.sub("", text.replace("\r\n", "\n"))


def sent_at(ts: str) -> datetime | None:
    """A message's `ts` as a time; None where it is no number."""
    try:
        return datetime.fromtimestamp(float(ts), UTC)
    except (ValueError, OverflowError, OSError):
        return None

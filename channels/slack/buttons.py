"""Buttons: Block Kit for a reply's choices, and clicks as messages. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from .wire import Me, clean

PREFIX = "nanobot:"  # of our buttons' action ids
ONCE = f"{PREFIX}once:"  # of those that can be pressed once, whatever they say
MAX_BUTTONS = 25
MAX_LABEL = 75
MAX_VALUE = 1_900


class Click(msgspec.Struct, frozen=True):
    """A press of one of our buttons.

    A question is answered once: all presses under it are the same message, of which the first counts. Commands are
    controls, which may be used again unless they say otherwise.
    """

    id: str
    channel: str
    thread: str
    user: str
    value: str
    label: str
    message_ts: str
    blocks: tuple[dict[str, Any], ...]
    text: str
    team: str
    answers: bool


class Button(msgspec.Struct, frozen=True):
    label: str
    value: str
    once: bool = False


def read_buttons(meta: Mapping[str, Any]) -> list[Button]:
    """A reply's choices: `meta["buttons"]` holds strings or {label, value, once}."""
    given = meta.get("buttons")
    found: list[Button] = []
    for one in given if isinstance(given, list | tuple) else ():
        if isinstance(one, Mapping):
            label = clean(str(one.get("label") or one.get("value") or ""))
            value, once = clean(str(one.get("value") or label)), one.get("once") is True
        else:
            label = value = clean(str(one))
            once = False
        if label.strip():
            found.append(Button(label.strip()[:MAX_LABEL], value[:MAX_VALUE], once))
    return found[:MAX_BUTTONS]


def button_block(buttons: Sequence[Button]) -> dict[str, Any]:
    return {
        "type": "actions",
        "elements": [
            {
                "type": "button",
                "action_id": f"{ONCE if one.once else PREFIX}{number}",
                "text": {"type": "plain_text", "text": one.label},
                "value": one.value,
            }
            for number, one in enumerate(buttons)
        ],
    }


def read_click(body: Mapping[str, Any], me: Me) -> Click | None:
    """The press in a `block_actions` payload; None where it is none of ours or lacks what we need."""
    actions = body.get("actions")
    action = actions[0] if isinstance(actions, list) and actions else None
    if not isinstance(action, Mapping) or not str(action.get("action_id") or "").startswith(PREFIX):
        return None
    container, message = _part(body, "container"), _part(body, "message")
    channel = str(_part(body, "channel").get("id") or container.get("channel_id") or "")
    user = str(_part(body, "user").get("id") or "")
    ts = str(container.get("message_ts") or message.get("ts") or "")
    if not (channel and user and ts):
        return None
    team = str(_part(body, "team").get("id") or me.team)
    blocks = message.get("blocks")
    value = str(action.get("value") or "")
    answers = not value.startswith("/") or str(action["action_id"]).startswith(ONCE)
    which = "" if answers else f":{action.get('action_ts') or body.get('trigger_id')}"
    return Click(
        id=f"{me.team}:{channel}:click:{ts}{which}",
        channel=channel,
        thread=str(container.get("thread_ts") or message.get("thread_ts") or ""),
        user=user,
        value=value,
        label=str(_part(action, "text").get("text") or ""),
        message_ts=ts,
        blocks=tuple(one for one in blocks if isinstance(one, dict)) if isinstance(blocks, list) else (),
        text=str(message.get("text") or ""),
        team=team,
        answers=answers,
    )


def _part(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object inside another; an empty one where there is none."""
    value = of.get(name)
    return value if isinstance(value, Mapping) else {}


def answered(click: Click) -> list[dict[str, Any]]:
    """The message's blocks with its buttons replaced by who chose what."""
    note = {"type": "plain_text", "text": f"✓ {click.label}"[:MAX_LABEL]}
    kept = [one for one in click.blocks if one.get("type") != "actions"]
    who = {"type": "mrkdwn", "text": f"<@{click.user}>"}
    return [*kept, {"type": "context", "elements": [note, who]}]

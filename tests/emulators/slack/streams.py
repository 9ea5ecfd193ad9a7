"""Streamed messages: started, appended to, stopped; they expire when nothing is appended, and people may stop them."""

import time
from collections.abc import Mapping
from typing import Any

from tests.emulators.slack.faults import Refused
from tests.emulators.slack.workspace import BOT_USER, MARKDOWN_MAX, Message, Workspace, check_blocks


class Streams:
    """The state machine. `idle_seconds` is how long a stream lives without an append."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.idle_seconds = 300.0
        self.allowed = True

    def start(self, args: Mapping[str, Any]) -> dict[str, Any]:
        channel = str(args.get("channel") or "")
        room = self.workspace.room(channel)
        if not self.allowed:
            raise Refused("unknown_method")
        thread = self.workspace.thread(channel, str(args.get("thread_ts") or ""))
        if room["kind"] == "im":
            if not thread:
                raise Refused("invalid_arguments")
        else:
            if not args.get("recipient_team_id"):
                raise Refused("missing_recipient_team_id")
            if not args.get("recipient_user_id"):
                raise Refused("missing_recipient_user_id")
        made = Message(
            channel, self.workspace.next_ts(), BOT_USER, thread_ts=thread, bot=True, streaming=True
        )
        made.touched = time.monotonic()
        self._append(made, args, needed=False)
        self.workspace.add(made)
        return {"channel": channel, "ts": made.ts}

    def append(self, args: Mapping[str, Any]) -> dict[str, Any]:
        found = self._open(args)
        self._append(found, args, needed=True)
        found.touched = time.monotonic()
        self.workspace.touch()
        return {"channel": found.channel, "ts": found.ts}

    def stop(self, args: Mapping[str, Any]) -> dict[str, Any]:
        found = self._open(args)
        self._append(found, args, needed=False)
        blocks = args.get("blocks") or []
        check_blocks(blocks)
        found.blocks = list(blocks)
        found.metadata = dict(args.get("metadata") or {})
        found.streaming = False
        self.workspace.touch()
        return {"channel": found.channel, "ts": found.ts, "message": found.wire()}

    def expire(self, message: Message) -> None:
        """As if nothing had been appended for minutes."""
        message.streaming = False

    def stopped_by_user(self, message: Message) -> None:
        message.streaming = False
        message.stopped_by_user = True

    def _open(self, args: Mapping[str, Any]) -> Message:
        found = self.workspace.find(str(args.get("channel") or ""), str(args.get("ts") or ""))
        if found is None:
            raise Refused("message_not_found")
        if not found.bot:
            raise Refused("message_not_owned_by_app")
        if found.streaming and time.monotonic() - found.touched > self.idle_seconds:
            found.streaming = False
        if found.stopped_by_user:
            raise Refused("stopped_by_user")
        if not found.streaming:
            raise Refused("message_not_in_streaming_state")
        return found

    def _append(self, message: Message, args: Mapping[str, Any], *, needed: bool) -> None:
        text = str(args.get("markdown_text") or "")
        for chunk in args.get("chunks") or ():
            if chunk.get("type") == "markdown_text":
                text += str(chunk.get("text") or "")
        if needed and not text and not args.get("chunks"):
            raise Refused("no_text")
        if len(text) > MARKDOWN_MAX or len(message.markdown) + len(text) > MARKDOWN_MAX:
            raise Refused("msg_too_long")
        self.workspace.note_pings(text)
        message.markdown += text

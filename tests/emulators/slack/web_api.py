"""The Web API's methods, as far as bots of this kind use them."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.emulators.slack.faults import Refused
from tests.emulators.slack.streams import Streams
from tests.emulators.slack.workspace import (
    APP,
    BOT_ID,
    BOT_USER,
    TEAM,
    Message,
    Workspace,
    check_content,
)

Args = Mapping[str, Any]
MAX_LIMIT = 1_000  # messages of a page
REACTION = re.compile(r"[a-z0-9_+'-]{1,100}")
SCOPES = (
    "app_mentions:read,assistant:write,channels:history,chat:write,commands,files:read,files:write,groups:history,"
    "im:history,mpim:history,reactions:write,users:read"
)


class WebApi:
    """Each method takes its arguments and returns the answer without `ok`; Refused is the platform's no."""

    def __init__(
        self,
        workspace: Workspace,
        streams: Streams,
        base: Callable[[], str],
        tell: Callable[[dict[str, Any]], object],
    ) -> None:
        self.workspace = workspace
        self._tell = tell  # of an event; the app hears of its own messages too
        self.streams = streams
        self._base = base
        self.methods: dict[str, Callable[[Args], dict[str, Any]]] = {
            "auth.test": self.auth_test,
            "chat.postMessage": self.post,
            "chat.update": self.update,
            "chat.delete": self.delete,
            "chat.startStream": streams.start,
            "chat.appendStream": streams.append,
            "chat.stopStream": streams.stop,
            "conversations.history": self.history,
            "conversations.replies": self.replies,
            "users.info": self.user,
            "reactions.add": self.add_reaction,
            "reactions.remove": self.remove_reaction,
            "assistant.threads.setStatus": self.status,
            "assistant.threads.setSuggestedPrompts": self.prompts,
            "files.getUploadURLExternal": self.upload_url,
            "files.completeUploadExternal": self.complete_upload,
            "files.info": self.file,
        }

    def auth_test(self, _: Args) -> dict[str, Any]:
        return {
            "url": "https://example.slack.com/",
            "team": "Example",
            "user": "nanobot",
            "team_id": TEAM,
            "user_id": BOT_USER,
            "bot_id": BOT_ID,
            "app_id": APP,
        }

    def post(self, args: Args) -> dict[str, Any]:
        channel = str(args.get("channel") or "")
        self.workspace.room(channel)
        content = check_content(args)
        thread = self.workspace.thread(channel, str(args.get("thread_ts") or ""))
        made = Message(channel, self.workspace.next_ts(), BOT_USER, thread_ts=thread, bot=True, **content)
        self.workspace.note_pings(made.text, made.shown)
        self.workspace.add(made)
        self._tell(self._event(made, made.wire()))
        return {"channel": channel, "ts": made.ts, "message": made.wire()}

    def update(self, args: Args) -> dict[str, Any]:
        found = self.workspace.own(str(args.get("channel")), str(args.get("ts")))
        if found.streaming:
            raise Refused("streaming_state_conflict")
        content = check_content(args, update=True)
        before = found.wire()
        found.text, found.markdown, found.blocks = content["text"], content["markdown"], content["blocks"]
        if content["metadata"]:
            found.metadata = content["metadata"]
        found.edits += 1
        self.workspace.note_pings(found.text, found.shown)
        self.workspace.touch()
        change = {"subtype": "message_changed", "message": found.wire(), "previous_message": before}
        self._tell(self._event(found, {"ts": self.workspace.next_ts(), "hidden": True, **change}))
        return {"channel": found.channel, "ts": found.ts, "text": found.text, "message": found.wire()}

    def delete(self, args: Args) -> dict[str, Any]:
        found = self.workspace.own(str(args.get("channel")), str(args.get("ts")))
        self.workspace.messages[found.channel].remove(found)
        self.workspace.touch()
        gone = {"subtype": "message_deleted", "deleted_ts": found.ts, "previous_message": found.wire()}
        self._tell(self._event(found, {"ts": self.workspace.next_ts(), "hidden": True, **gone}))
        return {"channel": found.channel, "ts": found.ts}

    def history(self, args: Args) -> dict[str, Any]:
        channel = str(args.get("channel"))
        self.workspace.room(channel)
        rows = [one for one in self.workspace.messages[channel] if one.thread_ts in ("", one.ts)]
        return self._page([one for one in rows if within(one.ts, args)][::-1], args)

    def replies(self, args: Args) -> dict[str, Any]:
        channel, ts = str(args.get("channel")), str(args.get("ts"))
        self.workspace.room(channel)
        if self.workspace.find(channel, ts) is None:
            raise Refused("thread_not_found")
        rows = [one for one in self.workspace.messages[channel] if ts in (one.ts, one.thread_ts)]
        return self._page([one for one in rows if within(one.ts, args) or one.ts == ts], args)

    def user(self, args: Args) -> dict[str, Any]:
        found = self.workspace.users.get(str(args.get("user")))
        if found is None:
            raise Refused("user_not_found")
        return {"user": found}

    def add_reaction(self, args: Args) -> dict[str, Any]:
        if not REACTION.fullmatch(str(args.get("name"))):
            raise Refused("invalid_name")
        users = self._reacted(args).setdefault(str(args.get("name")), [])
        if BOT_USER in users:
            raise Refused("already_reacted")
        users.append(BOT_USER)
        self.workspace.touch()
        return {}

    def remove_reaction(self, args: Args) -> dict[str, Any]:
        reactions = self._reacted(args)
        if BOT_USER not in reactions.get(str(args.get("name")), []):
            raise Refused("no_reaction")
        del reactions[str(args.get("name"))]
        self.workspace.touch()
        return {}

    def status(self, args: Args) -> dict[str, Any]:
        channel, thread = str(args.get("channel_id")), str(args.get("thread_ts") or "")
        if self.workspace.find(channel, thread) is None:
            raise Refused("invalid_thread_ts")
        if "status" not in args or len(args.get("loading_messages") or ()) > 10:
            raise Refused("invalid_arguments")
        self.workspace.set_status(channel, thread, str(args["status"]))
        return {}

    def prompts(self, args: Args) -> dict[str, Any]:
        if not 1 <= len(args.get("prompts") or ()) <= 4:
            raise Refused("invalid_arguments")
        self.workspace.prompts.append(dict(args))
        self.workspace.touch()
        return {}

    def upload_url(self, args: Args) -> dict[str, Any]:
        if not args.get("filename") or int(args.get("length") or 0) <= 0:
            raise Refused("invalid_arguments")
        made = f"F{len(self.workspace.files) + 1}"
        self.workspace.files[made] = {
            "id": made,
            "name": str(args["filename"]),
            "size": int(args["length"]),
            "data": None,
            "shares": [],
            "mimetype": "application/octet-stream",
        }
        return {"file_id": made, "upload_url": f"{self._base()}/upload/{made}"}

    def complete_upload(self, args: Args) -> dict[str, Any]:
        files = list(args.get("files") or ())
        channel = str(args.get("channel_id") or "")
        self.workspace.room(channel)
        thread = self.workspace.thread(channel, str(args.get("thread_ts") or ""))
        shown = []
        for one in files:
            found = self.workspace.files.get(one["id"])
            if found is None or found["data"] is None:
                raise Refused("file_not_found")
            if found["shares"]:
                raise Refused("file_already_completed")
            shown.append(found)
        made = Message(channel, self.workspace.next_ts(), BOT_USER, thread_ts=thread, bot=True)
        made.text = str(args.get("initial_comment") or "")
        made.files = [{"id": one["id"], "name": one["name"]} for one in shown]
        for one in shown:
            one["shares"].append(made.ts)
        self.workspace.add(made)
        return {"files": [{"id": one["id"], "title": one["name"]} for one in shown]}

    def file(self, args: Args) -> dict[str, Any]:
        found = self.workspace.files.get(str(args.get("file")))
        if found is None:
            raise Refused("file_not_found")
        shares = {"public": {"C": [{"ts": ts} for ts in found["shares"]]}} if found["shares"] else {}
        return {"file": {"id": found["id"], "name": found["name"], "size": found["size"], "shares": shares}}

    def _event(self, message: Message, fields: dict[str, Any]) -> dict[str, Any]:
        kind = self.workspace.channels[message.channel]["kind"]
        return {"type": "message", "channel": message.channel, "channel_type": kind, "team": TEAM, **fields}

    def _reacted(self, args: Args) -> dict[str, list[str]]:
        found = self.workspace.find(str(args.get("channel")), str(args.get("timestamp")))
        if found is None:
            raise Refused("message_not_found")
        return found.reactions

    def _page(self, rows: list[Message], args: Args) -> dict[str, Any]:
        limit, start = int(args.get("limit") or 100), int(args.get("cursor") or 0)
        if not 1 <= limit <= MAX_LIMIT:
            raise Refused("invalid_limit")
        metadata = str(args.get("include_all_metadata") or "").lower() in ("1", "true")
        page = [one.wire(metadata=metadata) for one in rows[start : start + limit]]
        end = start + limit
        more = end < len(rows)
        return {
            "messages": page,
            "has_more": more,
            "response_metadata": {"next_cursor": str(end) if more else ""},
        }


def within(ts: str, args: Args) -> bool:
    """Whether a message is asked for by its time; neither end is included."""
    latest = str(args.get("latest") or "")
    return ts > str(args.get("oldest") or "0") and (not latest or ts < latest)

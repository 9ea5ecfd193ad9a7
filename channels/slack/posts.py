"""Messages of ours in Slack: made, changed, found again by the id in their metadata."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from nanobot.channel import Address, Outbound

from .api import Api, Refusal
from .markdown import EMPTY, fallback

REPLY, PREVIEW = "nanobot_reply", "nanobot_preview"
PAGE = 100  # messages a look-up reads at a time
PAGES = 10
SLACK_SKEW = 7_200.0  # seconds our clock may be ahead of Slack's
PLAIN = 3_000  # characters of a section
# Refusals of a message's form, not of the message: it goes out again as plain sections.
FORM_ERRORS = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "msg_too_long"})
# Refusals of an edit after which the message is posted anew.
GONE = frozenset(
    {"message_not_found", "cant_update_message", "edit_window_closed", "message_not_owned_by_app"}
)

LAST_SECOND = datetime.max.replace(tzinfo=UTC).timestamp()
_ULID = "0123456789abcdefghjkmnpqrstvwxyz"


class Posts:
    """Posts and edits. `thread` of an address is the parent's ts, which is what replies must name."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def post(
        self, address: Address, text: str, metadata: Mapping[str, Any], extra: Sequence[dict[str, Any]] = ()
    ) -> str:
        """Post one message; returns its ts."""
        place = {"channel": address.chat_id, "thread_ts": address.thread or None}
        common = {**place, "metadata": metadata, "unfurl_links": False, "text": fallback(text) or EMPTY}
        try:
            answer = await self._api.call("chat.postMessage", **common, blocks=[markdown(text), *extra])
        except Refusal as refusal:
            if refusal.error not in FORM_ERRORS:
                raise
            answer = await self._api.call("chat.postMessage", **common, blocks=[*sections(text), *extra])
        return str(answer["ts"])

    async def edit(
        self,
        address: Address,
        ts: str,
        text: str,
        metadata: Mapping[str, Any],
        extra: Sequence[dict[str, Any]] = (),
    ) -> None:
        """Change one message; a stream that is still open is closed first."""
        try:
            await self._edit(address, ts, text, metadata, extra)
        except Refusal as refusal:
            if refusal.error != "streaming_state_conflict":
                raise
            await self.stop_stream(address, ts)
            await self._edit(address, ts, text, metadata, extra)

    async def _edit(
        self,
        address: Address,
        ts: str,
        text: str,
        metadata: Mapping[str, Any],
        extra: Sequence[dict[str, Any]],
    ) -> None:
        common = {
            "channel": address.chat_id,
            "ts": ts,
            "metadata": metadata,
            "text": fallback(text) or EMPTY,
        }
        try:
            await self._api.call("chat.update", **common, blocks=[markdown(text), *extra])
        except Refusal as refusal:
            if refusal.error not in FORM_ERRORS:
                raise
            await self._api.call("chat.update", **common, blocks=[*sections(text), *extra])

    async def stop_stream(self, address: Address, ts: str, **final: Any) -> bool:
        """Close a stream; False where it was closed already, by expiry or by the user."""
        try:
            await self._api.call("chat.stopStream", channel=address.chat_id, ts=ts, **final)
        except Refusal:
            return False
        return True

    async def remove(self, address: Address, ts: str, *, streaming: bool) -> None:
        """Take a message back."""
        if streaming:
            await self.stop_stream(address, ts)
        try:
            await self._api.call("chat.delete", channel=address.chat_id, ts=ts)
        except Refusal as refusal:
            if refusal.error != "message_not_found":
                raise

    async def parts(self, message: Outbound) -> dict[int, str]:
        """The parts of a reply that are in the chat: part number → ts."""
        found: dict[int, str] = {}
        # Where no message asked, all is looked through: by our clock a reply was posted at a time that may never have been.
        for row in await self._ours(message.address, asked_at(message.meta) or "0"):
            metadata = row.get("metadata") or {}
            payload = metadata.get("event_payload") or {}
            if metadata.get("event_type") == REPLY and payload.get("id") == message.id:
                found.setdefault(int(payload.get("part", 0)), str(row["ts"]))
        return found

    async def previews(self, address: Address, turn: str, oldest: str) -> list[str]:
        """Previews of a turn that an earlier life left, oldest first: marked ones, and streams, which bear no mark."""
        found = []
        for row in await self._ours(address, oldest):
            metadata = row.get("metadata") or {}
            payload = metadata.get("event_payload") or {}
            marked = metadata.get("event_type") == PREVIEW and payload.get("id") == turn
            if marked or (not metadata and address.thread and not row.get("files")):
                found.append(str(row["ts"]))
        return sorted(found)

    async def _ours(self, address: Address, oldest: str) -> list[Mapping[str, Any]]:
        """Our messages in a chat or thread since then."""
        rows: list[Mapping[str, Any]] = []
        cursor: str | None = None
        for _ in range(PAGES):
            query = {"limit": PAGE, "oldest": oldest, "include_all_metadata": True, "cursor": cursor}
            if address.thread:
                answer = await self._api.call(
                    "conversations.replies", channel=address.chat_id, ts=address.thread, **query
                )
            else:
                answer = await self._api.call("conversations.history", channel=address.chat_id, **query)
            rows += [
                row for row in answer.get("messages") or () if isinstance(row, dict) and row.get("bot_id")
            ]
            cursor = str((answer.get("response_metadata") or {}).get("next_cursor") or "") or None
            if cursor is None:
                break
        return rows


def markdown(text: str) -> dict[str, Any]:
    return {"type": "markdown", "text": text if text.strip() else EMPTY}


def sections(text: str) -> list[dict[str, Any]]:
    """The text as it is written, for a platform that does not take its markdown."""
    pieces = [text[at : at + PLAIN] for at in range(0, len(text), PLAIN)]
    shown = [piece for piece in pieces if piece.strip()] or [EMPTY]
    return [{"type": "section", "text": {"type": "plain_text", "text": piece}} for piece in shown]


def reply_mark(message: Outbound, part: int, count: int) -> dict[str, Any]:
    """The metadata a reply is known by when it is looked for."""
    return {"event_type": REPLY, "event_payload": {"id": message.id, "part": part, "of": count}}


def preview_mark(turn: str) -> dict[str, Any]:
    return {"event_type": PREVIEW, "event_payload": {"id": turn}}


def since(turn: str, meta: Mapping[str, Any]) -> str:
    """A ts that no message of this turn precedes: the asking message's, else the time in the turn's id."""
    if asked := asked_at(meta):
        return asked
    seconds = (made_at(turn) or 0.0) - SLACK_SKEW
    return f"{seconds:.6f}" if seconds > 0 else "0"


def asked_at(meta: Mapping[str, Any]) -> str:
    """The ts of the message that is answered; "" where it says none."""
    asked = str(meta.get("ts") or "")
    return asked if asked.replace(".", "", 1).isdigit() else ""


def made_at(turn: str) -> float | None:
    """When a turn's message was accepted, by our clock of that time, in epoch seconds; None where its id does not say."""
    try:
        number = 0
        for letter in turn.lower()[:10]:
            number = number << 5 | _ULID.index(letter)
    except ValueError:
        return None
    seconds = number / 1000
    return seconds if len(turn) == 26 and seconds < LAST_SECOND else None

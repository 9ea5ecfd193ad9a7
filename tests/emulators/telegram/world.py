"""The people, chats and messages behind the API, and what a person does there."""

import time
from typing import Any

import msgspec

from tests.emulators.telegram.errors import ApiError, bad

BOT_ID = 7_000_001
DRAFT_SECONDS = 30.0
ASKED_FOR = (
    "chat_member",
    "message_reaction",
    "message_reaction_count",
)  # updates that come to those who name them


class Posted(msgspec.Struct):
    """A message as the chat has it now."""

    id: int
    sender: int
    text: str
    entities: list[dict[str, Any]] = []
    thread: int = 0
    reply_to: int = 0
    keyboard: Any = None
    kind: str = "text"  # or photo, document, voice, audio, video
    file: bytes = b""
    file_name: str = ""
    reaction: str = ""
    edits: int = 0
    at: float = 0.0  # time.monotonic
    raw: dict[str, Any] = {}


class Draft(msgspec.Struct):
    id: int
    text: str
    at: float


class Chat:
    """A private chat, group, supergroup or forum."""

    def __init__(self, id: int, kind: str, title: str = "") -> None:
        self.id = id
        self.kind = kind
        self.title = title
        self.forum = False
        self.topics: dict[int, str] = {}  # id → name; General has none
        self.messages: dict[int, Posted] = {}
        self.draft: Draft | None = None
        self.drafts: list[str] = []  # every text a draft ever had
        self.actions: list[str] = []
        self.migrated_to = 0
        self.blocked = ""  # why the bot may not write here
        self.flooded_until = 0.0

    def describe(self) -> dict[str, Any]:
        value: dict[str, Any] = {"id": self.id, "type": self.kind}
        if self.kind == "private":
            value["first_name"] = self.title
        else:
            value["title"] = self.title
        if self.forum:
            value["is_forum"] = True
        return value

    def visible(self, thread: int | None = None) -> list[Posted]:
        """The bot's messages as people have them now, oldest first."""
        found = [one for one in self.messages.values() if one.sender == BOT_ID]
        return [one for one in found if thread is None or one.thread == thread]


class World:
    """Chats, people, files and updates of one bot."""

    def __init__(self, username: str = "helper_bot", *, reads_all: bool = True) -> None:
        self.username = username
        self.reads_all = reads_all  # privacy mode is off
        self.chats: dict[int, Chat] = {}
        self.people: dict[int, dict[str, Any]] = {}
        self.files: dict[str, tuple[str, bytes]] = {}
        self.updates: list[dict[str, Any]] = []
        self.allowed: list[str] | None = None
        self.commands: list[dict[str, str]] = []
        self.queries: set[str] = set()  # callback queries whose spinner turns
        self.answered: list[str] = []
        self._message = 100
        self._update = 5_000
        self._callback = 0

    # --- places and people -----------------------------------------------------------------------------------

    def bot(self) -> dict[str, Any]:
        return {
            "id": BOT_ID,
            "is_bot": True,
            "first_name": "Helper",
            "username": self.username,
            "can_join_groups": True,
            "can_read_all_group_messages": self.reads_all,
            "supports_inline_queries": False,
        }

    def person(self, id: int, name: str = "", username: str = "") -> dict[str, Any]:
        if id not in self.people:
            self.people[id] = {
                "id": id,
                "is_bot": False,
                "first_name": name or f"Person {id}",
                "language_code": "en",
            }
            if username:
                self.people[id]["username"] = username
        return self.people[id]

    def chat(self, id: int) -> Chat:
        """The chat; a positive number is a private one, made when first named."""
        if id not in self.chats:
            kind = "private" if id > 0 else "supergroup"
            title = str(self.person(id)["first_name"]) if id > 0 else f"Group {id}"
            self.chats[id] = Chat(id, kind, title)
        return self.chats[id]

    def forum(self, id: int, *topics: int) -> Chat:
        chat = self.chat(id)
        chat.forum = True
        chat.topics = {topic: f"Topic {topic}" for topic in topics}
        return chat

    # --- what people do --------------------------------------------------------------------------------------

    def say(
        self, chat_id: int, text: str = "", *, sender: int = 0, topic: int = 0, **fields: Any
    ) -> dict[str, Any]:
        """Somebody writes; returns the message as the update has it."""
        chat = self.chat(chat_id)
        user = self.person(sender or (chat_id if chat_id > 0 else 42))
        self._message += 1
        message: dict[str, Any] = {
            "message_id": self._message,
            "from": user,
            "chat": chat.describe(),
            "date": int(time.time()),
        }
        if text:
            message["text"] = text
            found = commands(text) + mentions(text)
            if found:
                message["entities"] = found
        if topic:
            message |= {"message_thread_id": topic, "is_topic_message": True}
        message |= fields
        chat.messages[self._message] = Posted(self._message, user["id"], text, thread=topic, raw=message)
        if chat.kind == "private" or self.reads_all or self._addressed(message):
            self.update(message=message)
        return message

    def edit(self, chat_id: int, message_id: int, text: str) -> None:
        """Somebody changes a message of theirs."""
        posted = self.chat(chat_id).messages[message_id]
        posted.text = text
        posted.raw = {**posted.raw, "text": text, "edit_date": int(time.time())}
        posted.raw.pop("entities", None)
        found = commands(text) + mentions(text)
        if found:
            posted.raw["entities"] = found
        if self.chat(chat_id).kind == "private" or self.reads_all or self._addressed(posted.raw):
            self.update(edited_message=posted.raw)

    def press(self, chat_id: int, message_id: int, data: str, *, sender: int = 0) -> str:
        """Somebody presses a button; returns the query's id."""
        chat = self.chat(chat_id)
        self._callback += 1
        query = f"cb{self._callback}"
        self.queries.add(query)
        posted = chat.messages[message_id]
        message = {
            "message_id": message_id,
            "from": self.bot(),
            "chat": chat.describe(),
            "date": 1,
            "text": posted.text,
        }
        if posted.thread:
            message |= {"message_thread_id": posted.thread, "is_topic_message": True}
        self.update(
            callback_query={
                "id": query,
                "from": self.person(sender or (chat_id if chat_id > 0 else 42)),
                "message": message,
                "chat_instance": "1",
                "data": data,
            }
        )
        return query

    def update(self, **content: Any) -> int:
        """Queue an update; the bot gets it unless it asked not to."""
        self._update += 1
        [kind] = content
        if kind in self.allowed if self.allowed else kind not in ASKED_FOR:
            self.updates.append({"update_id": self._update, **content})
        return self._update

    def file(self, name: str, data: bytes) -> str:
        """Store a file on the platform; returns its file_id."""
        file_id = f"file{len(self.files)}"
        self.files[file_id] = (name, data)
        return file_id

    # --- what the bot does -----------------------------------------------------------------------------------

    def place(self, chat_id: Any, thread: Any = None) -> Chat:
        """The chat the bot may write to now, or the platform's refusal."""
        try:
            chat = self.chats[int(chat_id)]
        except (KeyError, TypeError, ValueError):
            raise bad("chat not found") from None
        if chat.migrated_to:
            raise bad("group chat was upgraded to a supergroup chat", migrate_to_chat_id=chat.migrated_to)
        if chat.blocked:
            raise ApiError(403, f"Forbidden: {chat.blocked}")
        wait = chat.flooded_until - time.monotonic()
        if wait > 0:
            seconds = int(wait) + 1
            raise ApiError(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)
        if thread is not None and int(thread) not in chat.topics:
            raise bad("message thread not found")
        return chat

    def post(self, chat: Chat, **fields: Any) -> Posted:
        self._message += 1
        posted = Posted(self._message, BOT_ID, at=time.monotonic(), **fields)
        chat.messages[posted.id] = posted
        chat.draft = None
        return posted

    def describe(self, chat: Chat, posted: Posted) -> dict[str, Any]:
        """A message of the bot as the API returns it."""
        value: dict[str, Any] = {
            "message_id": posted.id,
            "from": self.bot(),
            "chat": chat.describe(),
            "date": int(time.time()),
        }
        if posted.kind == "text":
            value["text"] = posted.text
        if posted.entities and posted.kind == "text":
            value["entities"] = posted.entities
        if posted.thread:
            value |= {"message_thread_id": posted.thread, "is_topic_message": True}
        return value

    def _addressed(self, message: dict[str, Any]) -> bool:
        """Whether privacy mode lets the bot see it: commands, mentions and replies to the bot."""
        text = message.get("text") or message.get("caption") or ""
        replied = message.get("reply_to_message", {}).get("from", {}).get("id") == BOT_ID
        return replied or text.startswith("/") or f"@{self.username}" in text


def commands(text: str) -> list[dict[str, Any]]:
    if not text.startswith("/"):
        return []
    return [{"type": "bot_command", "offset": 0, "length": len(text.split(maxsplit=1)[0])}]


def mentions(text: str) -> list[dict[str, Any]]:
    found = []
    for word in text.split():
        if word.startswith("@") and len(word) > 1:
            name = word.rstrip(".,:;!?")
            offset = len(text[: text.index(word)].encode("utf-16-le")) // 2
            found.append({"type": "mention", "offset": offset, "length": len(name)})
    return found

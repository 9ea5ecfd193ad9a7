"""The Bot API's methods, each as it checks its parameters."""

import re
import time
from collections.abc import Callable
from typing import Any

from tests.emulators.telegram.errors import ApiError, bad
from tests.emulators.telegram.markup import MAX_CAPTION, check_keyboard, read_text
from tests.emulators.telegram.world import BOT_ID, DRAFT_SECONDS, Chat, Draft, World

MAX_UPLOAD, MAX_PHOTO, MAX_DOWNLOAD = 50 << 20, 10 << 20, 20 << 20
ACTIONS = {
    "typing",
    "upload_photo",
    "record_video",
    "upload_video",
    "record_voice",
    "upload_voice",
    "upload_document",
}
REACTIONS = {
    "👍",
    "👎",
    "❤",
    "🔥",
    "👏",
    "😁",
    "🤔",
    "🤯",
    "😱",
    "🎉",
    "🤩",
    "🙏",
    "👌",
    "🕊",
    "🤡",
    "👀",
    "💔",
    "🫡",
    "✍",
    "🤝",
    "😴",
}
COMMAND = re.compile(r"[a-z0-9_]{1,32}")
Params = dict[str, Any]


class Methods:
    """Everything but getUpdates and the webhook, which the server itself does."""

    def __init__(self, world: World) -> None:
        self.world = world

    def find(self, name: str) -> Callable[[Params], Any] | None:
        found: Callable[[Params], Any] | None = getattr(self, name.lower(), None)
        return None if name.startswith("_") or name.lower() == "find" else found

    def getme(self, _: Params) -> Any:
        return self.world.bot()

    def sendmessage(self, params: Params) -> Any:
        chat = self.world.place(params.get("chat_id"), params.get("message_thread_id"))
        text, entities = read_text(params.get("text"), params.get("entities"), params.get("parse_mode", ""))
        posted = self.world.post(
            chat,
            text=text,
            entities=entities,
            thread=int(params.get("message_thread_id", 0)),
            reply_to=self._reply(chat, params),
            keyboard=check_keyboard(params.get("reply_markup")),
        )
        return self.world.describe(chat, posted)

    def sendmessagedraft(self, params: Params) -> Any:
        chat = self.world.place(params.get("chat_id"), params.get("message_thread_id"))
        if chat.kind != "private":
            raise bad("TEXTDRAFT_PEER_INVALID")
        if not int(params.get("draft_id", 0)):
            raise bad("draft identifier must be non-zero")
        text, _ = read_text(
            params.get("text", ""), params.get("entities"), params.get("parse_mode", ""), empty=True
        )
        chat.draft = Draft(int(params["draft_id"]), text, time.monotonic())
        chat.drafts.append(text)
        return True

    def draft(self, chat: Chat) -> str:
        """What the draft shows now: it goes away by itself."""
        if chat.draft is None or time.monotonic() - chat.draft.at > DRAFT_SECONDS:
            return ""
        return chat.draft.text

    def editmessagetext(self, params: Params) -> Any:
        chat, posted = self._own(params)
        if posted.kind != "text":
            raise bad("there is no text in the message to edit")
        text, entities = read_text(params.get("text"), params.get("entities"), params.get("parse_mode", ""))
        keyboard = check_keyboard(params.get("reply_markup"))
        if (text, entities, keyboard) == (posted.text, posted.entities, posted.keyboard):
            raise bad(
                "message is not modified: specified new message content and reply markup are exactly the same "
                "as a current content and reply markup of the message"
            )
        posted.text, posted.entities, posted.keyboard = text, entities, keyboard
        posted.edits += 1
        return self.world.describe(chat, posted)

    def editmessagereplymarkup(self, params: Params) -> Any:
        chat, posted = self._own(params)
        keyboard = check_keyboard(params.get("reply_markup"))
        if keyboard == posted.keyboard:
            raise bad("message is not modified: the same reply markup")
        posted.keyboard = keyboard
        return self.world.describe(chat, posted)

    def deletemessage(self, params: Params) -> Any:
        chat = self.world.place(params.get("chat_id"))
        posted = chat.messages.get(int(params.get("message_id", 0)))
        if posted is None:
            raise bad("message to delete not found")
        if chat.kind != "private" and posted.sender != BOT_ID:
            raise bad("message can't be deleted")
        del chat.messages[posted.id]
        return True

    def sendchataction(self, params: Params) -> Any:
        chat = self.world.place(params.get("chat_id"), params.get("message_thread_id"))
        if params.get("action") not in ACTIONS:
            raise bad("wrong parameter action in request")
        chat.actions.append(params["action"])
        return True

    def setmessagereaction(self, params: Params) -> Any:
        chat = self.world.place(params.get("chat_id"))
        posted = chat.messages.get(int(params.get("message_id", 0)))
        if posted is None:
            raise bad("message to react not found")
        reactions = params.get("reaction") or []
        if len(reactions) > 1:
            raise bad("REACTIONS_TOO_MANY")
        if reactions and reactions[0].get("emoji") not in REACTIONS:
            raise bad("REACTION_INVALID")
        posted.reaction = reactions[0]["emoji"] if reactions else ""
        return True

    def answercallbackquery(self, params: Params) -> Any:
        query = str(params.get("callback_query_id", ""))
        if query not in self.world.queries:
            raise bad("query is too old and response timeout expired or query ID is invalid")
        self.world.queries.remove(query)
        self.world.answered.append(query)
        return True

    def setmycommands(self, params: Params) -> Any:
        commands = params.get("commands") or []
        if len(commands) > 100:
            raise bad("too many commands")
        for one in commands:
            if not COMMAND.fullmatch(one.get("command", "")):
                raise bad("BOT_COMMAND_INVALID")
            if not 1 <= len(one.get("description", "")) <= 256:
                raise bad("BOT_COMMAND_DESCRIPTION_INVALID")
        self.world.commands = commands
        return True

    def getfile(self, params: Params) -> Any:
        file_id = str(params.get("file_id", ""))
        if file_id not in self.world.files:
            raise bad("invalid file_id")
        name, data = self.world.files[file_id]
        if len(data) > MAX_DOWNLOAD:
            raise bad("file is too big")
        return {
            "file_id": file_id,
            "file_unique_id": f"u{file_id}",
            "file_size": len(data),
            "file_path": f"docs/{file_id}/{name}",
        }

    def sendphoto(self, params: Params) -> Any:
        return self._send_file(params, "photo", MAX_PHOTO)

    def senddocument(self, params: Params) -> Any:
        return self._send_file(params, "document", MAX_UPLOAD)

    def sendvoice(self, params: Params) -> Any:
        return self._send_file(params, "voice", MAX_UPLOAD)

    def sendaudio(self, params: Params) -> Any:
        return self._send_file(params, "audio", MAX_UPLOAD)

    def sendvideo(self, params: Params) -> Any:
        return self._send_file(params, "video", MAX_UPLOAD)

    def _send_file(self, params: Params, kind: str, limit: int) -> Any:
        chat = self.world.place(params.get("chat_id"), params.get("message_thread_id"))
        upload = params.get("_files", {}).get(params.get(kind, "").removeprefix("attach://"))
        upload = upload or params.get("_files", {}).get(kind)
        if upload is None:
            raise bad(f"there is no {kind} in the request")
        name, data = upload
        if len(data) > MAX_UPLOAD:
            raise ApiError(413, "Request Entity Too Large")
        if len(data) > limit:
            raise bad(f"file of size {len(data)} bytes is too big for a {kind}")
        if not data:
            raise bad("file must be non-empty")
        if kind == "photo" and not data.startswith((b"\x89PNG", b"\xff\xd8", b"RIFF")):
            raise bad("IMAGE_PROCESS_FAILED")
        caption, entities = read_text(
            params.get("caption", ""),
            params.get("caption_entities"),
            params.get("parse_mode", ""),
            limit=MAX_CAPTION,
            empty=True,
        )
        posted = self.world.post(
            chat,
            text=caption,
            entities=entities,
            kind=kind,
            file=data,
            file_name=name,
            thread=int(params.get("message_thread_id", 0)),
            reply_to=self._reply(chat, params),
        )
        return self.world.describe(chat, posted)

    def _own(self, params: Params) -> Any:
        chat = self.world.place(params.get("chat_id"))
        posted = chat.messages.get(int(params.get("message_id", 0)))
        if posted is None:
            raise bad("message to edit not found")
        if posted.sender != BOT_ID:
            raise bad("message can't be edited")
        return chat, posted

    def _reply(self, chat: Chat, params: Params) -> int:
        reply = params.get("reply_parameters")
        if not reply:
            return 0
        if int(reply["message_id"]) not in chat.messages:
            if not reply.get("allow_sending_without_reply"):
                raise bad("message to be replied not found")
            return 0
        return int(reply["message_id"])

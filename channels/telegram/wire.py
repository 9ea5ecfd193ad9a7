"""What Telegram sends, read into the gateway's words. No I/O; every field may be missing."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from nanobot.channel import Address, Inbound

GENERAL = 1  # the topic of a forum that must be written to without a thread id
QUOTE = 2_000  # characters of a replied-to message that are passed on
OWN_QUOTE = 300  # of the bot's own, which the session knows already
_COMMAND = re.compile(r"/([A-Za-z0-9_]+)(?:@(\w+))?(?=\s|$)")
GROUPS = ("group", "supergroup")


class Person(msgspec.Struct, frozen=True):
    id: int = 0
    is_bot: bool = False
    first_name: str = ""
    last_name: str = ""
    username: str = ""

    @property
    def name(self) -> str:
        return " ".join(part for part in (self.first_name, self.last_name) if part) or self.username


class Place(msgspec.Struct, frozen=True):
    id: int = 0
    type: str = ""
    title: str = ""


class Entity(msgspec.Struct, frozen=True):
    type: str = ""
    offset: int = 0
    length: int = 0
    user: Person | None = None


class File(msgspec.Struct, frozen=True):
    """Any kind of file; photos come as several of growing size."""

    file_id: str = ""
    file_unique_id: str = ""
    file_size: int = 0
    file_name: str = ""
    mime_type: str = ""


class Sticker(msgspec.Struct, frozen=True):
    emoji: str = ""


class Location(msgspec.Struct, frozen=True):
    latitude: float = 0.0
    longitude: float = 0.0


class Venue(msgspec.Struct, frozen=True):
    title: str = ""
    address: str = ""


class Contact(msgspec.Struct, frozen=True):
    first_name: str = ""
    last_name: str = ""
    phone_number: str = ""


class Option(msgspec.Struct, frozen=True):
    text: str = ""


class Poll(msgspec.Struct, frozen=True):
    question: str = ""
    options: tuple[Option, ...] = ()


class Dice(msgspec.Struct, frozen=True):
    emoji: str = ""
    value: int = 0


class Task(msgspec.Struct, frozen=True):
    text: str = ""


class Checklist(msgspec.Struct, frozen=True):
    title: str = ""
    tasks: tuple[Task, ...] = ()


class Origin(msgspec.Struct, frozen=True):
    """Who wrote a message that was passed on."""

    sender_user: Person | None = None
    sender_user_name: str = ""  # of somebody who does not let their account be shown
    sender_chat: Place | None = None
    chat: Place | None = None

    @property
    def name(self) -> str:
        place = self.chat or self.sender_chat
        person = self.sender_user.name if self.sender_user else self.sender_user_name
        return person or (place.title if place else "")


class Quote(msgspec.Struct, frozen=True):
    text: str = ""


class Message(msgspec.Struct, frozen=True):
    message_id: int = 0
    sender: Person | None = msgspec.field(name="from", default=None)
    sender_chat: Place | None = None
    chat: Place | None = None
    date: int = 0
    edit_date: int = 0
    text: str = ""
    caption: str = ""
    entities: tuple[Entity, ...] = ()
    caption_entities: tuple[Entity, ...] = ()
    message_thread_id: int = 0
    is_topic_message: bool = False
    media_group_id: str = ""
    reply_to_message: "Message | None" = None
    quote: Quote | None = None
    photo: tuple[File, ...] = ()
    document: File | None = None
    voice: File | None = None
    audio: File | None = None
    video: File | None = None
    video_note: File | None = None
    animation: File | None = None
    sticker: Sticker | None = None
    location: Location | None = None
    venue: Venue | None = None
    contact: Contact | None = None
    poll: Poll | None = None
    dice: Dice | None = None
    checklist: Checklist | None = None
    story: dict[str, Any] | None = None
    forward_origin: Origin | None = None
    migrate_to_chat_id: int = 0
    migrate_from_chat_id: int = 0
    via_bot: Person | None = None


class Press(msgspec.Struct, frozen=True):
    """A button was pressed."""

    id: str = ""
    sender: Person | None = msgspec.field(name="from", default=None)
    message: Message | None = None
    data: str = ""


class Member(msgspec.Struct, frozen=True):
    status: str = ""


class Membership(msgspec.Struct, frozen=True):
    """What the bot may do in a chat has changed."""

    chat: Place | None = None
    new_chat_member: Member | None = None


class Update(msgspec.Struct, frozen=True):
    update_id: int
    message: Message | None = None
    edited_message: Message | None = None
    callback_query: Press | None = None
    my_chat_member: Membership | None = None

    @property
    def chat_id(self) -> int:
        """The chat it is about, by which updates are kept in order."""
        pressed = self.callback_query.message if self.callback_query else None
        about = self.message or self.edited_message or pressed or self.my_chat_member
        return about.chat.id if about and about.chat else 0


def read_update(raw: Any) -> Update:
    """Raises msgspec.ValidationError where it cannot be understood."""
    return msgspec.convert(sound(raw), Update, strict=False)


def sound(raw: Any) -> Any:
    """The same without halves of characters, which JSON's escapes can carry and no file or database takes."""
    try:
        msgspec.json.encode(raw)
    except UnicodeEncodeError:
        text = json.dumps(raw, ensure_ascii=False)
        return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return raw


class Me(msgspec.Struct, frozen=True):
    """Who the bot is, and which commands it knows."""

    id: int
    username: str
    commands: frozenset[str] = frozenset()


def is_private(chat_id: str) -> bool:
    """Telegram's private chats have the person's positive id, all others a negative one."""
    return not chat_id.startswith("-")


def thread_of(message: Message) -> str:
    """The topic as an address has it; replies in ordinary groups also carry a thread id, which is no topic."""
    if message.is_topic_message and message.message_thread_id not in (0, GENERAL):
        return f"topic:{message.message_thread_id}"
    return ""


def thread_id(address: Address) -> int | None:
    """The thread id to post to, or None."""
    _, _, number = address.thread.partition("topic:")
    return int(number) if number.isdecimal() and int(number) != GENERAL else None


def files_of(message: Message) -> list[tuple[str, File]]:
    """The message's file with its kind; of a photo the largest size."""
    if message.photo:
        return [("photo", max(message.photo, key=lambda one: one.file_size))]
    for kind in ("animation", "video", "video_note", "voice", "audio", "document"):
        found = getattr(message, kind)
        if found is not None:
            return [(kind, found)]
    return []


def described(message: Message) -> str:
    """What a message shows that is neither text nor a file."""
    if message.venue:
        return f"[place: {message.venue.title}, {message.venue.address}]"
    if message.location:
        return f"[location: {message.location.latitude}, {message.location.longitude}]"
    if message.contact:
        name = f"{message.contact.first_name} {message.contact.last_name}".strip()
        return f"[contact: {name} {message.contact.phone_number}]"
    if message.poll:
        return "\n".join(
            [f"[poll: {message.poll.question}]", *(f"- {one.text}" for one in message.poll.options)]
        )
    if message.checklist:
        tasks = (f"- {one.text}" for one in message.checklist.tasks)
        return "\n".join([f"[checklist: {message.checklist.title}]", *tasks])
    if message.dice:
        return f"[{message.dice.emoji} shows {message.dice.value}]"
    if message.story is not None:
        return "[a story, which bots cannot see]"
    if message.voice:
        return "[voice message]"
    if message.video_note:
        return "[video message]"
    if message.sticker:
        return f"[sticker {message.sticker.emoji}]".replace(" ]", "]")
    return ""


def to_inbound(message: Message, me: Me, *, channel: str, session: str = "") -> Inbound | None:
    """The message as the gateway takes it, without its files; None where it is not for the bot to read."""
    chat, sender = message.chat, message.sender
    if chat is None or not chat.id or not message.message_id or chat.type not in ("private", *GROUPS):
        return None
    if sender is None or not sender.id or sender.is_bot or message.sender_chat is not None:
        return None  # other bots, and people who write as a channel or anonymously
    text = message.text or message.caption or described(message)
    if not text and not files_of(message):
        return None  # joins, pins, title changes and what this version does not know
    forwarded = message.forward_origin is not None  # somebody else's words: no command of this person
    command = None if forwarded else _COMMAND.match(text)
    if command and command[2] and command[2].lower() != me.username.lower():
        return None  # a command for another bot
    private = chat.type == "private"
    mentioned = private or addressed(message, me, command)
    if not private:
        text = without_mention(text, me.username)
        command = None if forwarded else _COMMAND.match(text)
    if command and command[1].lower() == "start":
        text = "/help"  # what Telegram's own button says in a chat that begins
    above = "" if command else origin_line(message) or reply_context(message, me)
    return Inbound(
        channel=channel,
        message_id=known_as(message, chat),
        chat_id=str(chat.id),
        thread=thread_of(message),
        text=f"{above}\n\n{text}" if above else text,
        sender=str(sender.id),
        sender_name=sender.name,
        private=private,
        mentioned=mentioned,
        session=session,
        sent_at=datetime.fromtimestamp(message.date, UTC) if 0 < message.date < 1 << 33 else None,
        meta={} if private else {"reply_to": message.message_id},
    )


def known_as(message: Message, chat: Place) -> str:
    """What a message is known by when it comes again or is changed; an album is one, whichever part of it comes."""
    return f"{chat.id}:{f'album:{message.media_group_id}' if message.media_group_id else message.message_id}"


def addressed(message: Message, me: Me, command: re.Match[str] | None) -> bool:
    """Whether a group's message is meant for the bot: a mention, a reply to it, or one of its commands."""
    text = message.text or message.caption
    for entity in (*message.entities, *message.caption_entities):
        if entity.type == "text_mention" and entity.user and entity.user.id == me.id:
            return True
        if entity.type == "mention" and part(text, entity).lower() == f"@{me.username}".lower():
            return True
    replied = answered_message(message)
    if replied and replied.sender and replied.sender.id == me.id:
        return True
    return bool(command and (command[2] or command[1].lower() in me.commands))


def answered_message(message: Message) -> Message | None:
    """The message this one replies to; in a topic everything formally replies to the message that opened it."""
    replied = message.reply_to_message
    if replied and message.is_topic_message and replied.message_id == message.message_thread_id:
        return None
    return replied


def part(text: str, entity: Entity) -> str:
    """The text of an entity, whose numbers count UTF-16 units."""
    data = text.encode("utf-16-le", "replace")
    return data[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le", "replace")


def without_mention(text: str, username: str) -> str:
    """A group's message without the address it begins with."""
    if not username:
        return text
    return re.sub(rf"^\s*@{re.escape(username)}\b[\s,:]*", "", text, flags=re.IGNORECASE) or text


def origin_line(message: Message) -> str:
    """Who wrote a message that was passed on, as a line above it."""
    if message.forward_origin is None:
        return ""
    name = " ".join(message.forward_origin.name.replace("]", ")").split())[:OWN_QUOTE]
    return f"[Passed on; written by {name or 'somebody'}]"


def reply_context(message: Message, me: Me) -> str:
    """What a reply refers to, as a line above it."""
    replied = answered_message(message)
    if replied is None:
        return ""
    own = bool(replied.sender and replied.sender.id == me.id)
    said = replied.text or replied.caption or described(replied)
    if message.quote and message.quote.text:
        said = message.quote.text
    kinds = [kind for kind, _ in files_of(replied)]
    said = said or (f"[{kinds[0]}]" if kinds else "")
    if not said:
        return ""
    limit = OWN_QUOTE if own else QUOTE
    who = "you" if own else (replied.sender.name if replied.sender else "somebody")
    return f"[In reply to {who}: {said[:limit]}{'…' if len(said) > limit else ''}]"

"""Short ways to say what the store's contract is about."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

from nanobot.messages import Address, Inbound, InboundKind, Outbound
from nanobot.store import Claim, Store

Reopen = Callable[[Store], Awaitable[Store]]

CHAT = Address("telegram", "7")
SOON = timedelta(hours=1)


def said(message_id: str, text: str = "hello", kind: InboundKind = "user", chat: Address = CHAT) -> Inbound:
    return Inbound(chat.channel, message_id, chat.chat_id, text, thread=chat.thread, kind=kind)


def reply(turn: str, part: int = 0, text: str = "hi", ref: str = "", chat: Address = CHAT) -> Outbound:
    return Outbound(turn, part, chat, text, ref=ref)


async def accept(store: Store, *texts: str, kind: InboundKind = "user") -> list[str]:
    return [(await store.inbox.accept(said(f"{kind}-{text}", text, kind))).id for text in texts]


async def take(store: Store, session: str = CHAT.key) -> Claim:
    claim = await store.inbox.claim(session)
    assert claim is not None
    return claim

"""Letting unknown people in: a code they are given, which the owner approves.

Eight characters, ten minutes, at most three waiting per channel, compared in constant time; guesses are rate limited.
"""

import asyncio
import hmac
import secrets
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

from nanobot.channel import Keys
from nanobot.clock import Clock
from nanobot.messages import Address, Inbound, Outbound
from nanobot.plain import clean
from nanobot.store import Pairing, Pairings

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # without the look-alikes I, O, 0, 1
LENGTH = 8
LIFETIME = timedelta(minutes=10)
MAX_WAITING = 3  # per channel
MAX_GUESSES = 10  # wrong codes a minute, over all callers
DENIED_SECONDS = 86_400.0  # in which somebody who was turned away is not heard again
MAX_DENIED = 1_000  # who are remembered
MAX_NAME = 60  # characters of a name that the owner is shown

Tell = Callable[[Outbound], Awaitable[None]]


async def nobody(_: Outbound) -> None:
    """Where nobody is told."""


class PairingDesk:
    """Issues, approves and revokes pairings; `tell` posts the word to somebody who was let in."""

    def __init__(self, pairings: Pairings, clock: Clock, tell: Tell = nobody) -> None:
        self._pairings = pairings
        self._clock = clock
        self._tell = tell
        self._asking = (
            asyncio.Lock()
        )  # two messages at once must not be two requests, of which one code counts
        self._wrong: deque[float] = deque(maxlen=MAX_GUESSES)
        self._denied: OrderedDict[tuple[str, str], float] = OrderedDict()  # until when

    async def paired(self, channel: str, sender: str) -> bool:
        found = await self._pairings.get(channel, sender)
        return found is not None and found.status == "approved"

    async def request(self, message: Inbound) -> str | None:
        """The code to show to an unknown sender; None where nothing should be said."""
        async with self._asking:
            return await self._request(message)

    async def _request(self, message: Inbound) -> str | None:
        now = self._clock.now()
        if self._denied.get((message.channel, message.sender), 0.0) > self._clock.monotonic():
            return None
        known = await self._pairings.get(message.channel, message.sender)
        if known and known.status == "pending" and known.expires_at > now:
            return None  # it was told already; repeating it would make the bot a spammer
        waiting = [
            one
            for one in await self._pairings.list(message.channel)
            if one.status == "pending" and one.expires_at > now
        ]
        if len(waiting) >= MAX_WAITING:
            return None
        code = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
        await self._pairings.put(
            Pairing(
                channel=message.channel,
                sender=message.sender,
                name=message.sender_name,
                chat_id=message.chat_id,
                code=code,
                status="pending",
                created_at=now,
                expires_at=now + LIFETIME,
            )
        )
        return f"{code[:4]}-{code[4:]}"

    async def find(self, code: str) -> Pairing | None:
        """The waiting request with this code; a wrong guess counts against the rate limit."""
        now = self._clock.monotonic()
        if len(self._wrong) == MAX_GUESSES and now - self._wrong[0] < 60:
            return None
        plain = code.replace("-", "").strip().upper().encode()
        match: Pairing | None = None
        for one in await self._pairings.list():
            same = hmac.compare_digest(one.code.encode(), plain)
            if same and one.status == "pending" and one.expires_at > self._clock.now():
                match = one
        if match is None:
            self._wrong.append(now)
        return match

    async def approve(self, code: str) -> Pairing | None:
        found = await self.find(code)
        if found is None:
            return None
        approved = Pairing(
            channel=found.channel,
            sender=found.sender,
            name=found.name,
            chat_id=found.chat_id,
            code="",
            status="approved",
            created_at=found.created_at,
            expires_at=found.expires_at,
        )
        await self._pairings.put(approved)
        await self._tell(welcome(approved))
        return approved

    async def deny(self, code: str) -> Pairing | None:
        found = await self.find(code)
        if found is not None:
            await self._pairings.delete(found.channel, found.sender)
            self._denied[found.channel, found.sender] = self._clock.monotonic() + DENIED_SECONDS
            if len(self._denied) > MAX_DENIED:
                self._denied.popitem(last=False)
        return found

    async def decide(self, channel: str, sender: str, *, admit: bool) -> bool:
        """Approve or deny the one who waits, for an owner who sees the list and need not type the code."""
        found = await self._pairings.get(channel, sender)
        if found is None or found.status != "pending" or found.expires_at <= self._clock.now():
            return False
        return (await self.approve(found.code) if admit else await self.deny(found.code)) is not None

    async def revoke(self, channel: str, sender: str) -> bool:
        return await self._pairings.delete(channel, sender)

    async def list(self) -> list[Pairing]:
        """Approved people, and requests that are still valid."""
        now = self._clock.now()
        return [
            one for one in await self._pairings.list() if one.status == "approved" or one.expires_at > now
        ]


class Owners:
    """Where each channel's owner was last seen in a direct chat; requests to be let in are shown there.

    On a channel whose owner is not known, the owners of the others are asked.
    """

    def __init__(self, owners: Mapping[str, str], keys: Keys) -> None:
        self._owners = {channel: owner for channel, owner in owners.items() if owner}
        self._keys = keys
        self._chats: dict[str, str] | None = None  # channel → chat

    async def seen(self, message: Inbound) -> None:
        """The owner of its channel wrote this, in a direct chat; durable on return."""
        chats = await self._known()
        if chats.get(message.channel) != message.chat_id:
            await self._keys.set(f"{message.channel}:{message.sender}", message.chat_id)
            chats[message.channel] = message.chat_id

    async def addresses(self, channel: str) -> list[Address]:
        """Whom to ask about somebody of this channel."""
        chats = await self._known()
        if channel in chats:
            return [Address(channel, chats[channel])]
        return [Address(name, chat) for name, chat in sorted(chats.items())]

    async def _known(self) -> dict[str, str]:
        if self._chats is None:
            seen = dict(await self._keys.items())
            places = {channel: seen.get(f"{channel}:{owner}", "") for channel, owner in self._owners.items()}
            self._chats = {channel: chat for channel, chat in places.items() if chat}
        return self._chats


def question(message: Inbound, code: str, address: Address) -> Outbound:
    """What the owner is asked about an unknown sender, with buttons where the channel has them."""
    name = shown(message.sender_name) or "Somebody"
    return Outbound(
        turn=f"pairing:{message.channel}:{message.message_id}:owner:{address.channel}",
        part=0,
        address=address,
        text=(
            f"`{name}` (`{shown(message.sender)}` on {message.channel}) wrote to me and I do not know them. Shall they "
            f"be let in? The code is {code}, valid for {minutes()} minutes: `/pairing approve {code}`."
        ),
        kind="notice",
        meta={
            "buttons": [
                {"label": "Let in", "value": f"/pairing approve {code}", "once": True},
                {"label": "Turn away", "value": f"/pairing deny {code}", "once": True},
            ]
        },
    )


def answer(message: Inbound, code: str, *, owner_asked: bool) -> Outbound:
    """What an unknown sender is told."""
    how = (
        "I have asked the owner to let you in."
        if owner_asked
        else f"The owner lets you in with: nanobot pairing approve {code}"
    )
    return Outbound(
        turn=f"pairing:{message.channel}:{message.message_id}",
        part=0,
        address=message.address,
        text=f"I do not know you yet. Your pairing code is {code}, valid for {minutes()} minutes. {how}",
        kind="notice",
        meta=message.meta,
    )


def welcome(pairing: Pairing) -> Outbound:
    """What somebody is told who was let in: what strangers write is not kept, so it has to be said again."""
    return Outbound(
        turn=f"pairing:{pairing.channel}:{pairing.sender}:{pairing.created_at.timestamp():.0f}:welcome",
        part=0,
        address=Address(pairing.channel, pairing.chat_id),
        text="You are let in. What you wrote before was not kept, so please write it again.",
        kind="notice",
    )


def shown(name: str) -> str:
    """A stranger's name as plain words: it may hold markup, or lines that look like ours."""
    return " ".join(clean(name.replace("`", "'")).split())[:MAX_NAME]


def minutes() -> int:
    return int(LIFETIME.total_seconds() // 60)

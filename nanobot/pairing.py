"""Letting unknown people in: a code they are given, which the owner approves.

Eight characters, ten minutes, at most three waiting per channel, compared in constant time; guesses are rate limited.
"""

import hmac
import secrets
from collections import deque
from datetime import timedelta

from nanobot.clock import Clock
from nanobot.messages import Inbound
from nanobot.store import Pairing, Pairings

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # without the look-alikes I, O, 0, 1
LENGTH = 8
LIFETIME = timedelta(minutes=10)
MAX_WAITING = 3  # per channel
MAX_GUESSES = 10  # wrong codes a minute, over all callers


class PairingDesk:
    """Issues, approves and revokes pairings."""

    def __init__(self, pairings: Pairings, clock: Clock) -> None:
        self._pairings = pairings
        self._clock = clock
        self._wrong: deque[float] = deque(maxlen=MAX_GUESSES)

    async def paired(self, channel: str, sender: str) -> bool:
        found = await self._pairings.get(channel, sender)
        return found is not None and found.status == "approved"

    async def request(self, message: Inbound) -> str | None:
        """The code to show to an unknown sender; None where nothing should be said."""
        now = self._clock.now()
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
        return approved

    async def deny(self, code: str) -> Pairing | None:
        found = await self.find(code)
        if found is not None:
            await self._pairings.delete(found.channel, found.sender)
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

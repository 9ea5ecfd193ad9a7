"""The owner's REST: who asks to be let in, and replies that did not arrive."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from .desk import Desk
from .request import Handler, Refusal, decoded, reply
from .settings import OWNER


class Decision(msgspec.Struct, frozen=True):
    """Lets a sender that waits in or not, or one that was let in out again."""

    channel: str
    sender: str
    action: Literal["approve", "deny", "revoke"]


class Resolve(msgspec.Struct, frozen=True):
    """What becomes of a reply that did not arrive."""

    id: Annotated[int, Meta(ge=0, le=2**63 - 1)]  # the database has no greater ones
    action: Literal["resend", "drop"]


class Office:
    def __init__(self, desk: Desk) -> None:
        self._office = desk.port.office

    def handlers(self) -> tuple[tuple[str, str, Handler], ...]:
        return (
            ("GET", "/api/pairing", self.people),
            ("POST", "/api/pairing", self.decide),
            ("GET", "/api/outbox", self.letters),
            ("POST", "/api/outbox", self.resolve),
        )

    async def people(self, _request: Request, principal: str) -> Response:
        _owner_only(principal)
        return reply({"people": msgspec.to_builtins(await self._office.applicants())})

    async def decide(self, request: Request, principal: str) -> Response:
        _owner_only(principal)
        wanted = await decoded(request, Decision)
        if wanted.action == "revoke":
            done = await self._office.revoke(wanted.channel, wanted.sender)
        else:
            admit = wanted.action == "approve"
            done = await self._office.decide(wanted.channel, wanted.sender, admit=admit)
        if not done:
            raise Refusal(404, "not_found", "nobody of that name waits or is paired")
        return await self.people(request, principal)

    async def letters(self, _request: Request, principal: str) -> Response:
        _owner_only(principal)
        return reply({"letters": msgspec.to_builtins(await self._office.dead_letters())})

    async def resolve(self, request: Request, principal: str) -> Response:
        _owner_only(principal)
        wanted = await decoded(request, Resolve)
        act = self._office.resend if wanted.action == "resend" else self._office.drop
        if not await act(wanted.id):
            raise Refusal(404, "not_found", "no undelivered reply has this number")
        return await self.letters(request, principal)


def _owner_only(principal: str) -> None:
    if principal != OWNER:
        # As for sessions: what one may not see is not there.
        raise Refusal(404, "not_found", "there is no such thing here")

"""What the socket and the REST share: the port, the settings, the chats and who owns them."""

from collections.abc import Mapping
from typing import Any

from nanobot.channel import Port

from .auth import Offer, host_allowed, origin_allowed, principal_of, read_offer
from .hub import Hub
from .media import MediaStore
from .owners import Owners
from .settings import OWNER, Settings


class Desk:
    """One per channel."""

    def __init__(self, port: Port, settings: Settings, hub: Hub) -> None:
        self.port = port
        self.settings = settings
        self.hub = hub
        self.owners = Owners(port.keys, port.sessions, port.name, alone=not settings.users)
        hub.whose = self.owners.known
        self.media = MediaStore(port.media, port.files)
        self.stopping = False

    def admit(self, scope: Mapping[str, Any]) -> Offer | None:
        """The request's offer where its Host and Origin may talk to us at all."""
        offer = read_offer(scope)
        if not self._host_allowed(scope, offer) or not origin_allowed(offer, self.settings):
            return None
        return offer

    def host_allowed(self, scope: Mapping[str, Any]) -> bool:
        """Whether the page may be given to this request at all."""
        return self._host_allowed(scope, read_offer(scope))

    def _host_allowed(self, scope: Mapping[str, Any], offer: Offer) -> bool:
        if self.settings.open and not offer.local:
            return False
        app = scope.get("app")
        bound = str(getattr(app.state, "host", "")) if app is not None else ""
        return host_allowed(offer, self.settings, bound)

    def principal(self, offer: Offer) -> str:
        """Who it is, "" where the token is missing or wrong."""
        return OWNER if self.settings.open else self.principal_of(offer.token)

    def principal_of(self, token: str) -> str:
        return principal_of(token, self.settings) if token else ""

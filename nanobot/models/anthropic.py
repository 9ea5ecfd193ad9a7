"""Models behind Anthropic's messages API."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from nanobot.model import Failed, ModelRequest
from nanobot.models.failures import Target, classify, parse
from nanobot.models.http import Decoder, HttpClient, HttpModel, ProviderSettings, secrets_of
from nanobot.models.media import Read, load_images
from nanobot.models.wire_anthropic import AnthropicDecoder, credentials, request_body

DEFAULT_URL = "https://api.anthropic.com/v1"


class AnthropicModel(HttpModel):
    """`<base_url>/messages`, streamed. Relative paths of images are looked up in `roots`."""

    def __init__(
        self,
        name: str,
        settings: ProviderSettings,
        client: HttpClient,
        *,
        context_window: int,
        roots: Sequence[Path] = (),
        read: Read = Path.read_bytes,
    ) -> None:
        base = (settings.base_url or DEFAULT_URL).rstrip("/")
        if not base.endswith(("/v1", "/messages")):
            base += "/v1"
        url = base if base.endswith("/messages") else f"{base}/messages"
        target = Target(name, url, secrets_of(settings), dict(settings.extra))
        self.roots = roots
        self.read = read
        super().__init__(target, settings, client, context_window=context_window)

    def credentials(self, key: str) -> Mapping[str, str]:
        return credentials(key)

    async def encode(self, request: ModelRequest) -> Sequence[bytes]:
        uncached, images = await load_images(request.messages, self.roots, self.read)
        return request_body(request, self.target, uncached=uncached, images=images)

    def decoder(self) -> Decoder:
        return AnthropicDecoder(self.target)

    def classify(self, status: int, body: bytes, wait: float | None) -> Failed:
        return classify(self.target, status, parse(body), wait)

"""Models behind OpenAI's chat completions: openai.com and every server that speaks its protocol."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from nanobot.model import Failed, ModelRequest
from nanobot.models.failures import Target, classify, parse
from nanobot.models.http import Decoder, HttpClient, HttpModel, ProviderSettings, secrets_of
from nanobot.models.media import Read, load_images
from nanobot.models.wire_openai import Dialect, OpenAIDecoder, limit_name, request_body

DEFAULT_URL = "https://api.openai.com/v1"


class OpenAIModel(HttpModel):
    """`<base_url>/chat/completions`, streamed. Relative paths of images are looked up in `roots`."""

    dialect: Dialect = "openai"

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
        url = base if base.endswith("/chat/completions") else f"{base}/chat/completions"
        target = Target(name, url, secrets_of(settings), dict(settings.extra))
        self.limit = limit_name(base, settings.extra)
        self.roots = roots
        self.read = read
        super().__init__(target, settings, client, context_window=context_window)

    def credentials(self, key: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    async def encode(self, request: ModelRequest) -> Sequence[bytes]:
        uncached, images = await load_images(request.messages, self.roots, self.read)
        return request_body(
            request, self.target, dialect=self.dialect, limit=self.limit, uncached=uncached, images=images
        )

    def decoder(self) -> Decoder:
        return OpenAIDecoder(self.target)

    def classify(self, status: int, body: bytes, wait: float | None) -> Failed:
        return classify(self.target, status, parse(body), wait)

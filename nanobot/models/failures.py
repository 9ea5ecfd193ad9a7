"""What a provider's refusal means, in the words of nanobot.model; rules without I/O, shared by the dialects."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from nanobot.model import Failed

_OVERFLOW = re.compile(
    r"context[_ ](length|window|size)|maximum context|prompt is too long|input is too long|too many (input )?tokens"
    r"|reduce the length|exceeds? the (model'?s )?(maximum|available) (context|input|length|number of tokens|tokens)|input length .*exceed|max_prompt_tokens",
    re.IGNORECASE,
)
_QUOTA = re.compile(
    r"insufficient[_ ](quota|funds|credits?|balance)|exceeded your current quota|billing|credit balance|out of credit",
    re.IGNORECASE,
)
_KEY = re.compile(r"\b(?:sk|pk|rk|xai|gsk|key|Bearer)[-_ ][\w.*-]{6,}", re.IGNORECASE)
MAX_DETAIL = 300  # characters of a provider's own words that are shown


class Target(msgspec.Struct, frozen=True):
    """A model and where it is: what bodies and sentences name. `secrets` are kept out of every sentence."""

    name: str  # provider/model
    url: str
    secrets: tuple[str, ...] = ()
    extra: Mapping[str, Any] = {}

    @property
    def provider(self) -> str:
        return self.name.partition("/")[0]

    @property
    def model(self) -> str:
        """As the provider calls it."""
        return self.name.partition("/")[2]

    def clean(self, text: str) -> str:
        """A provider's words on one line, short, without keys."""
        for secret in self.secrets:
            if secret:
                text = text.replace(secret, "***")
        text = _KEY.sub("***", " ".join(text.split()))
        return text if len(text) <= MAX_DETAIL else text[: MAX_DETAIL - 1] + "…"


class Complaint(msgspec.Struct, frozen=True):
    """A provider's error object, read loosely: `code` and `type` are its machine words, joined."""

    code: str
    text: str


def complaint(error: Any) -> Complaint:
    """Read an error of any of the shapes in use: `{"error": {...}}`, `{"error": "…"}`, `{"message": …}`, text."""
    if isinstance(error, dict) and "error" in error:
        error = error["error"]
    if isinstance(error, list) and error:
        error = error[0]
    if not isinstance(error, dict):
        return Complaint("", str(error or ""))
    words = [str(error[key]) for key in ("code", "type", "status") if error.get(key)]
    text = error.get("message") or error.get("detail") or error.get("msg") or ""
    meta = error.get("metadata")
    if isinstance(meta, dict) and isinstance(meta.get("raw"), str):  # a router that hands on another's words
        text = f"{text}: {meta['raw']}"
    return Complaint(" ".join(words), str(text))


def parse(body: bytes) -> Complaint:
    """The complaint in a response's body, which may not be JSON at all."""
    try:
        return complaint(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = body.decode("utf-8", "replace")
        # A proxy's HTML page says nothing.
        return Complaint("", "" if text.lstrip().startswith("<") else text)


def classify(target: Target, status: int, problem: Complaint, wait: float | None = None) -> Failed:
    """What an HTTP status and a complaint mean. `status` 0 stands for an error inside a good response."""
    words = f"{problem.code} {problem.text}"
    said = target.clean(problem.text or problem.code)
    detail = f": {said}" if said else "."
    streamed = status == 0
    status = status or _status_of(problem.code)
    table = f"[models.{target.provider}]"
    if status in (401, 403):
        text = f"{target.name}: the key was refused ({status}); check api_key in {table}."
        return Failed("auth", text)
    if status == 402 or ((streamed or status in (400, 429)) and _QUOTA.search(words)):
        return Failed("quota", f"{target.name}: the account has no credit left{detail}")
    if status == 429:
        return Failed("rate_limited", f"{target.name}: too many requests (429){detail}", wait)
    if status == 413 or ((streamed or status in (400, 422, 500)) and _OVERFLOW.search(words)):
        return Failed("context_overflow", f"{target.name}: the conversation does not fit{detail}")
    if status == 404:
        text = f"{target.url} knows no model {target.model!r} (404); check the model's name and base_url in {table}"
        return Failed("invalid", text + detail)
    if status in (408, 504):
        return Failed("timeout", f"{target.name}: the provider took too long ({status}){detail}", wait)
    if status in (0, 409) or status >= 500:
        where = f" ({status})" if status else ""
        return Failed("overloaded", f"{target.name}: the provider failed{where}{detail}", wait)
    if 300 <= status < 400:
        return Failed(
            "invalid", f"{target.url} redirects ({status}); set the final address in {table} base_url."
        )
    return Failed("invalid", f"{target.name}: the request was refused ({status}){detail}")


def _status_of(code: str) -> int:
    """The HTTP status an error inside a good response stands for, by its machine words; 0 where they say nothing."""
    words = set(re.split(r"\W+", code.lower()))
    for status, names in _WORDS.items():
        if words & names:
            return status
    return next((int(word) for word in words if len(word) == 3 and word.isdigit() and word >= "400"), 0)


_WORDS: dict[int, set[str]] = {
    401: {"authentication_error", "invalid_api_key", "permission_error", "unauthorized"},
    402: {"billing_error", "insufficient_quota"},
    404: {"not_found_error", "model_not_found"},
    413: {"request_too_large", "context_length_exceeded", "exceed_context_size_error"},
    429: {"rate_limit_error", "rate_limit_exceeded", "too_many_requests"},
    504: {"timeout_error"},
    529: {"overloaded_error", "overloaded", "server_error", "api_error", "internal_error"},
    400: {"invalid_request_error", "bad_request"},
}


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """The seconds a response asks to wait: `retry-after-ms`, or Retry-After as seconds or as a date."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        value = headers.get("Retry-After", "")
        if not value:
            return None
        if value.replace(".", "", 1).isdigit():
            return float(value)
        moment = parsedate_to_datetime(value)
        return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())
    except (ValueError, TypeError):
        return None

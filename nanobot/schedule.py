"""When things are to happen: what people write behind a goal, and the moments that follow from it.

No I/O but for the rules of time zones, which the system has.
"""

import os
import re
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from nanobot.errors import NanobotError

MAX_MISSED = 1_000  # counted no further
LONGEST = 300  # characters of a time behind a goal
GRACE = 300.0  # seconds; what is due longer ago was missed

# A zone as people write it behind a time: Europe/Berlin, America/Argentina/Salta, UTC.
_ZONE = r"(?:\s+(?:in\s+)?(?P<zone>[A-Z][A-Za-z_]+(?:/[A-Za-z_+\-0-9]+)+|UTC))?\s*$"
_FIELD = r"[\w*/,\-#?]+"
_CRON = re.compile(
    rf"\s+every\s+(?P<quote>[\"'`]?)(?P<cron>@\w+|{_FIELD}(?:\s+{_FIELD}){{4}})(?P=quote){_ZONE}",
    re.IGNORECASE,
)
_AT = re.compile(
    r"\s+at\s+(?P<at>(?:\d{4}-\d{2}-\d{2}[ T])?\d{1,2}:\d{2}(?::\d{2})?(?:Z|[+-]\d{2}:\d{2})?)" + _ZONE
)
# What looks like a time but is none that could be kept exactly.
_LOOSE = re.compile(
    r"\s+every\s+(?P<loose>(?:other\s+)?(?:\d+\s+)?(?:minute|hour|day|week|month|year|morning|evening|night|noon|"
    r"weekday|monday|tuesday|wednesday|thursday|friday|saturday|sunday)s?(?:\s+at\s+\S+)?)\s*$",
    re.IGNORECASE,
)
EXAMPLES = "`every 0 9 * * 1-5 Europe/Berlin` (minute, hour, day, month, weekday) or `at 2026-12-24 18:00`"


class BadSchedule(NanobotError):
    """A time that cannot be understood or kept; nothing was changed."""


class When(msgspec.Struct, frozen=True):
    """A repeating time (`cron` set) or a single one, in an explicit zone."""

    zone: str
    cron: str = ""
    at: datetime | None = None


def split(text: str, now: datetime, *, zone: str = "") -> tuple[str, When | None]:
    """A goal's text without the time at its end, and that time. Raises BadSchedule.

    `zone` is taken where the text names none; the machine's own where that is empty too.
    """
    # Only the end: over a long text of blanks these patterns would take hours, and everything with them.
    begin = max(0, len(text) - LONGEST)
    found = _CRON.search(text, begin)
    if found is not None and (found["quote"] or re.search(r"[\d*@]", found["cron"])):
        when = When(known_zone(found["zone"] or zone or local_zone()), cron=" ".join(found["cron"].split()))
        check(when)
        return text[: found.start()].strip(), when
    found = _AT.search(text, begin)
    if found is not None:
        name = known_zone(found["zone"] or zone or local_zone())
        return text[: found.start()].strip(), When(name, at=moment(found["at"], name, now))
    found = _LOOSE.search(text, begin)
    if found is not None:
        raise BadSchedule(f"Say exactly when instead of “every {found['loose']}”: {EXAMPLES}.")
    return text, None


def check(when: When) -> None:
    """Raises BadSchedule where a cron expression is none, or names a day that never comes."""
    import croniter  # noqa: PLC0415 - only for who schedules; the gateway's start must not pay for it

    try:
        croniter.croniter(when.cron, datetime.now(UTC)).get_next(datetime)
    except (ValueError, KeyError, AttributeError, croniter.CroniterError) as error:
        raise BadSchedule(f"“{when.cron}” is no time table: {EXAMPLES}.") from error


def following(when: When, after: datetime) -> datetime | None:
    """The first moment after this one, in UTC; None where there is none."""
    if not when.cron:
        return when.at if when.at is not None and when.at > after else None
    import croniter  # noqa: PLC0415 - as above

    local = after.astimezone(zone_of(when.zone))
    table = croniter.croniter(when.cron, local)
    found: datetime = table.get_next(datetime)
    hour = when.cron.split()[1:2]
    if hour and "*" not in hour[0] and found.replace(tzinfo=None) <= local.replace(tzinfo=None):
        found = table.get_next(datetime)  # the hour that comes twice when the clocks go back counts once
    return found.astimezone(UTC)


def missed(when: When, due: datetime, now: datetime) -> tuple[int, datetime | None]:
    """How many times have passed by now, the due one included, and the first that has not."""
    count, at = 0, due
    while at <= now and count < MAX_MISSED:
        count += 1
        after = following(when, at)
        if after is None:
            return count, None
        at = after
    return count, at if at > now else following(when, now)


def moment(text: str, zone: str, now: datetime) -> datetime:
    """A time of today or of the day named, in UTC. Raises BadSchedule where it is none or has passed."""
    place = zone_of(zone)
    try:
        if "-" in text[:5] or len(text) > 8:
            at = datetime.fromisoformat(re.sub(r"[ T](\d):", r"T0\1:", text))
            at = at if at.tzinfo else at.replace(tzinfo=place)
        else:
            clock = datetime.strptime(text, "%H:%M:%S" if text.count(":") > 1 else "%H:%M")  # noqa: DTZ007 - no date yet
            today = now.astimezone(place)
            at = today.replace(hour=clock.hour, minute=clock.minute, second=clock.second, microsecond=0)
    except ValueError as error:
        raise BadSchedule(f"“{text}” is no time: {EXAMPLES}.") from error
    if at <= now:
        raise BadSchedule(f"“{text}” ({zone}) has passed already. Name the day too: {EXAMPLES}.")
    return at.astimezone(UTC)


def known_zone(name: str) -> str:
    zone_of(name)
    return name


def zone_of(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadSchedule(f"There is no time zone {name}; names are like Europe/Berlin.") from error


def local_zone() -> str:
    """The machine's time zone by name, UTC where it has none."""
    named = os.environ.get("TZ", "").lstrip(":")
    link = Path("/etc/localtime")
    if not named and link.is_symlink():
        named = str(link.resolve()).partition("zoneinfo/")[2]
    try:
        ZoneInfo(named or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "UTC"
    return named or "UTC"


def written(when: When, next_at: datetime | None) -> str:
    """When it happens next, for people."""
    if next_at is None:
        return "never again"
    local = next_at.astimezone(zone_of(when.zone))
    table = f", then every `{when.cron}`" if when.cron else ""
    return f"{local:%Y-%m-%d %H:%M} {when.zone}{table}"

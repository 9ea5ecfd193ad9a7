"""What `nanobot doctor` can ask Telegram: is the token good, can updates arrive, what does the bot see in groups."""

from collections.abc import Mapping
from typing import Any

import msgspec

from nanobot.channel import ChannelError, DeadlineExceeded
from telegram.error import InvalidToken, TelegramError

from .api import Api, translated
from .chats import BLOCKED
from .settings import read_settings

PRIVACY = (
    "In groups it gets only commands, replies to it and most mentions. To change that: @BotFather, /setprivacy, Disable; "
    "then remove the bot from each group and add it again."
)

NUMBERS = (
    "People have numbers here, since their names can change hands. Let them write to the bot; nanobot pairing list shows "
    "the number as SENDER."
)
PARKED = (
    "What waits leaves as soon as somebody there writes to the bot or lets it in again; nanobot outbox drop ends the "
    "wait."
)


class Finding(msgspec.Struct, frozen=True):
    """`status` is ok, warn or fail; `remedy` says what to do about the last two."""

    status: str
    text: str
    remedy: str = ""


async def examine(values: Mapping[str, Any]) -> list[Finding]:
    """Ask Telegram about the configured bot; changes nothing. Raises ConfigError where the table is unusable."""
    known = read_settings(values)
    api = Api(known.token, known.api_url)
    found: list[Finding] = []
    names = [one for one in known.allow_from if one != "*" and not one.isdecimal()]
    if names:
        found.append(Finding("warn", f"allow_from lets nobody in by {', '.join(names)}", NUMBERS))
    try:
        await api.open()
        bot = api.bot
        found.append(Finding("ok", f"the token is @{bot.username}'s", ""))
        if not bot.bot.can_read_all_group_messages:
            status = "warn" if known.group_policy == "open" else "ok"
            found.append(Finding(status, "privacy mode is on", PRIVACY))
        async with translated("getWebhookInfo"):
            hook = await bot.get_webhook_info()
        if not known.webhook and hook.url:
            remedy = "The gateway takes it over at its start; whoever set it gets nothing any more."
            found.append(Finding("warn", f"a webhook is set: {hook.url}", remedy))
        if known.webhook and hook.last_error_message:
            remedy = "Check that webhook_url can be reached from the internet by https."
            found.append(Finding("warn", f"Telegram could not deliver: {hook.last_error_message}", remedy))
    except InvalidToken:
        found.append(Finding("fail", "Telegram refuses the token", "Get a new one from @BotFather (/token)."))
    except (TelegramError, ChannelError, DeadlineExceeded) as error:
        found.append(
            Finding("fail", f"no answer from {known.api_url}: {error}", "Check the network and api_url.")
        )
    finally:
        await api.close()
    return found


def review(notes: Mapping[str, str], waiting: Mapping[str, int]) -> list[Finding]:
    """The chats that refuse the bot: nothing arrives there until somebody wants it again."""
    found = []
    for key, reason in sorted(notes.items()):
        if key.startswith(BLOCKED):
            chat = key.removeprefix(BLOCKED)
            count = waiting.get(chat, 0)
            replies = "1 reply waits" if count == 1 else f"{count} replies wait" if count else "nothing waits"
            found.append(Finding("warn", f"chat {chat} refuses the bot ({reason}); {replies} there", PARKED))
    return found

"""What `nanobot doctor` can ask Telegram: is the token good, can updates arrive, what does the bot see in groups."""

from collections.abc import Mapping, Sequence
from typing import Any

from nanobot.channel import ChannelError, DeadlineExceeded
from telegram.error import InvalidToken, TelegramError

from .api import Api, translated
from .settings import read_settings

PRIVACY = (
    "In groups it gets only commands, replies to it and most mentions. To change that: @BotFather, /setprivacy, Disable; "
    "then remove the bot from each group and add it again."
)


async def check(settings: Mapping[str, Any]) -> Sequence[tuple[str, str, str]]:
    """Findings as (ok | warn | fail, text, remedy). Nothing is changed. ConfigError as in `create`."""
    known = read_settings(settings)
    api = Api(known.token, known.api_url)
    found: list[tuple[str, str, str]] = []
    try:
        await api.open()
        bot = api.bot
        found.append(("ok", f"the token is @{bot.username}'s", ""))
        if not bot.bot.can_read_all_group_messages:
            status = "warn" if known.group_policy == "open" else "ok"
            found.append((status, "privacy mode is on", PRIVACY))
        async with translated("getWebhookInfo"):
            hook = await bot.get_webhook_info()
        if not known.webhook and hook.url:
            remedy = "The gateway takes it over at its start; whoever set it gets nothing any more."
            found.append(("warn", f"a webhook is set: {hook.url}", remedy))
        if known.webhook and hook.last_error_message:
            remedy = "Check that webhook_url can be reached from the internet by https."
            found.append(("warn", f"Telegram could not deliver: {hook.last_error_message}", remedy))
    except InvalidToken:
        found.append(("fail", "Telegram refuses the token", "Get a new one from @BotFather (/token)."))
    except (TelegramError, ChannelError, DeadlineExceeded) as error:
        found.append(("fail", f"no answer from {known.api_url}: {error}", "Check the network and api_url."))
    finally:
        await api.close()
    return found

"""The command menu people see after typing "/"."""

import hashlib

from loguru import logger

from nanobot.channel import ChannelError, DeadlineExceeded, Port
from telegram import BotCommand
from telegram.error import TelegramError

from .api import Api, translated

KEY = "menu"


async def publish_menu(api: Api, port: Port) -> None:
    """Register the commands, if they changed since the last time; a failure costs only the menu."""
    commands = [
        BotCommand(one.name.lower()[:32], (one.description or one.usage)[:256])
        for one in port.commands()
        if one.name.replace("_", "a").isalnum() and one.name.isascii()
    ][:100]
    digest = hashlib.sha256(repr([(one.command, one.description) for one in commands]).encode()).hexdigest()
    wanted = f"{api.bot.id}:{digest}"
    if await port.keys.get(KEY) == wanted:
        return
    try:
        async with translated("setMyCommands"):
            await api.bot.set_my_commands(commands)
    except (TelegramError, ChannelError, DeadlineExceeded) as error:
        logger.warning("telegram: the command menu was not set: {}", error)
        return
    await port.keys.set(KEY, wanted)

"""A Slack that runs on loopback: Web API, Socket Mode, signed HTTP events, files and streams, with its faults."""

from tests.emulators.slack.faults import Fault
from tests.emulators.slack.server import SlackServer
from tests.emulators.slack.workspace import BOT_USER, TEAM, Message, Workspace

__all__ = ["BOT_USER", "TEAM", "Fault", "Message", "SlackServer", "Workspace"]

import pytest

from nanobot.commands import Commands, Entry, Invocation, parse
from nanobot.messages import Inbound


def said(text: str, channel: str = "telegram") -> Inbound:
    return Inbound(channel, "1", "7", text)


async def shout(call: Invocation) -> str:
    return call.argument.upper()


def table() -> Commands:
    commands = Commands()
    commands.add(
        [
            Entry("stop", "/stop", "Stop", shout, immediate=True),
            Entry("goal", "/goal <objective>", "Work on something", shout),
        ]
    )
    return commands


@pytest.mark.parametrize(
    ("text", "name", "argument"),
    [
        ("/stop", "stop", ""),
        ("/STOP", "stop", ""),
        ("/stop@nano_bot", "stop", ""),
        ("/goal write a book", "goal", "write a book"),
        ("/goal\nfirst line\nsecond line", "goal", "first line\nsecond line"),
        ("/goal@nano_bot line one\n\nline two", "goal", "line one\n\nline two"),
        ("  /stop \n", "stop", ""),
    ],
)
def test_a_command_is_parsed_with_all_its_lines(text: str, name: str, argument: str) -> None:
    found = parse(said(text))
    assert found
    assert (found.name, found.argument) == (name, argument)


@pytest.mark.parametrize(
    "text", ["", "hello", "/usr/bin/python is a path", "/ stop", "//", "/1", "see /stop", "!stop"]
)
def test_ordinary_text_is_no_command(text: str) -> None:
    assert parse(said(text)) is None


def test_an_exclamation_mark_stands_for_the_slash_in_slack_only() -> None:
    found = parse(said("!goal go", channel="slack"))
    assert found
    assert found.name == "goal"
    assert parse(said("!goal go", channel="websocket")) is None


def test_what_the_gateway_itself_enqueues_is_never_a_command() -> None:
    assert parse(Inbound("telegram", "1", "7", "/stop", kind="child_result")) is None


async def test_an_unknown_command_is_answered_with_the_nearest_one() -> None:
    unknown = parse(said("/gaol x"))
    assert unknown
    assert "Did you mean /goal?" in await table().run(unknown)


def test_an_unknown_command_is_answered_at_once_like_an_immediate_one() -> None:
    commands = table()
    unknown, stop, goal = (parse(said(text)) for text in ("/nope", "/stop", "/goal x"))
    assert unknown
    assert stop
    assert goal
    assert commands.immediate(unknown)
    assert commands.immediate(stop)
    assert not commands.immediate(goal)


async def test_help_lists_every_command_of_the_table() -> None:
    commands = table()
    asked = parse(said("/help"))
    assert asked
    text = await commands.run(asked)
    for command in commands.menu():
        assert command.usage in text
        assert command.description in text


async def test_help_explains_one_command_and_knows_which_there_are() -> None:
    commands = table()
    explained, unknown = parse(said("/help stop")), parse(said("/help gaol"))
    assert explained
    assert unknown
    assert await commands.run(explained) == "`/stop`: Stop"
    assert "Did you mean /goal?" in await commands.run(unknown)


async def test_answers_in_slack_name_commands_as_they_are_written_there() -> None:
    asked = parse(said("!help", channel="slack"))
    assert asked
    assert "`!goal <objective>`: Work on something" in await table().run(asked)

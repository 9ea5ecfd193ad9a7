"""Buttons in Slack: a question is answered once, a control can be pressed again."""

from pathlib import Path

from nanobot.channel import Outbound
from tests.channels.slack_house import house
from tests.emulators.slack import BOT_USER

HELLO = f"<@{BOT_USER}> hello"


async def test_a_choice_is_a_press_and_comes_back_as_a_message(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("C1", HELLO, raw=True)
        buttons = [{"label": "Approve", "value": "yes, do it"}, "Deny"]
        await gateway.channel.deliver(gateway.reply(asked, "May I?", meta={"buttons": buttons}))
        [posted] = gateway.workspace.by_bot("C1")
        way = gateway.slack.click(posted, "U2", "Approve")
        assert await way.acked()
        pressed = await gateway.arrival()
        await gateway.workspace.until(lambda: posted.edits == 1)

    assert (pressed.text, pressed.sender, pressed.key) == ("yes, do it", "U2", asked.key)
    assert [block["type"] for block in posted.blocks] == ["markdown", "context"]
    assert posted.shown == "May I?"


async def test_of_two_presses_under_a_question_the_first_counts(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("C1", HELLO, raw=True)
        await gateway.channel.deliver(gateway.reply(asked, "Which?", meta={"buttons": ["Tea", "Coffee"]}))
        [posted] = gateway.workspace.by_bot("C1")
        first, second = gateway.slack.click(posted, "U1", "Tea"), gateway.slack.click(posted, "U2", "Coffee")
        assert await first.acked()
        assert await second.acked()
        await gateway.workspace.until(lambda: posted.edits == 1)

        assert [message.text for message in gateway.port.accepted[1:]] == ["Tea"]
        [note, who] = posted.blocks[-1]["elements"]
        assert (note["text"], who["text"]) == ("✓ Tea", "<@U1>")


async def test_a_command_that_is_given_once_leaves_with_its_button(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("DU1")
        buttons = [{"label": "Let in", "value": "/pairing approve X", "once": True}]
        await gateway.channel.deliver(gateway.reply(asked, "Somebody asks.", meta={"buttons": buttons}))
        [posted] = gateway.workspace.by_bot("DU1")
        for _ in range(2):
            assert await gateway.slack.click(posted, "U1", "Let in").acked()
        await gateway.workspace.until(lambda: posted.edits == 1)

        assert [message.text for message in gateway.port.accepted[1:]] == ["/pairing approve X"]
        assert [block["type"] for block in posted.blocks] == ["markdown", "context"]


async def test_a_press_and_a_command_whose_acknowledgement_was_lost_count_once(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("DU1")
        await gateway.channel.deliver(gateway.reply(asked, "May I?", meta={"buttons": ["Yes"]}))
        [posted] = gateway.workspace.by_bot("DU1")
        gateway.slack.events.ack_seconds = 0.3
        gateway.slack.events.lose_acks = 1
        press = gateway.slack.click(posted, "U1", "Yes")
        assert await press.acked()
        gateway.slack.events.lose_acks = 1
        command = gateway.slack.slash("DU1", "U1", "status")
        assert await command.acked()

    assert (press.attempts, command.attempts) == (2, 2)
    assert [message.text for message in gateway.port.accepted] == ["hello", "Yes", "/status"]


async def test_buttons_that_stand_for_commands_stay(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("DU1", "/goal tidy")
        buttons = [{"label": "Pause", "value": "/goal pause"}]
        receipt = await gateway.channel.deliver(gateway.reply(asked, "Active", meta={"buttons": buttons}))
        [posted] = gateway.workspace.by_bot("DU1")
        for _ in range(2):
            assert await gateway.slack.click(posted, "U1", "Pause").acked()
        edit = Outbound("t", 0, asked.address, "Paused", kind="notice", ref=receipt.ref, meta={"goal": "t"})
        await gateway.channel.deliver(edit)

        assert [message.text for message in gateway.port.accepted[1:]] == ["/goal pause", "/goal pause"]
        assert gateway.workspace.shown("DU1") == ["Paused"]

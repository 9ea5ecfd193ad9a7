import pytest

from nanobot.messages import Address, Inbound
from nanobot.routing import Policy, Verdict, admit, control_lane, controlled

STRICT = Policy.of({"allow_from": ["U1"], "group_policy": "mention"})


def message(sender: str, *, private: bool = True, mentioned: bool = True) -> Inbound:
    return Inbound("slack", "1", "C1", "hi", sender=sender, private=private, mentioned=mentioned)


@pytest.mark.parametrize(
    ("key", "address"),
    [
        ("slack:C1:1712.3", Address("slack", "C1", "1712.3")),
        ("telegram:-100:topic:7", Address("telegram", "-100", "topic:7")),
        ("websocket:abc", Address("websocket", "abc")),
    ],
)
def test_a_session_key_is_the_address_with_its_thread(key: str, address: Address) -> None:
    assert address.key == key


def test_a_listed_sender_is_admitted_in_a_direct_chat() -> None:
    assert admit(message("U1"), STRICT, paired=False) is Verdict.ADMIT


def test_an_unknown_sender_is_paired_in_a_direct_chat_and_ignored_in_a_group() -> None:
    assert admit(message("U2"), STRICT, paired=False) is Verdict.PAIR
    assert admit(message("U2", private=False), STRICT, paired=False) is Verdict.IGNORE


def test_a_paired_sender_is_as_good_as_a_listed_one() -> None:
    assert admit(message("U2"), STRICT, paired=True) is Verdict.ADMIT


def test_a_group_message_needs_a_mention_unless_the_policy_is_open() -> None:
    unaddressed = message("U1", private=False, mentioned=False)
    assert admit(unaddressed, STRICT, paired=False) is Verdict.IGNORE
    assert admit(unaddressed, Policy(frozenset({"U1"}), "open"), paired=False) is Verdict.ADMIT


def test_a_star_admits_everyone() -> None:
    assert admit(message("U9"), Policy(frozenset({"*"})), paired=False) is Verdict.ADMIT


def test_an_id_is_compared_whole_and_never_as_a_part() -> None:
    assert admit(message("U1|evil"), STRICT, paired=False) is Verdict.PAIR


def test_a_channel_without_an_allow_list_authenticates_its_people_itself() -> None:
    assert admit(message("anyone"), Policy.of({"token": "t"}), paired=False) is Verdict.ADMIT


def test_a_control_lane_names_its_session() -> None:
    assert controlled(control_lane("slack:C1")) == "slack:C1"
    assert controlled("slack:C1") is None

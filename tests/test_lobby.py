"""Who waits at the door, and who guesses: rules without a socket."""

import resource

import pytest

from nanobot import lobby
from nanobot.lobby import FREE, LONGEST, MOST, PATIENCE, STEP, WINDOW, Lobby, address_of
from nanobot.testing import FakeClock


class Guest:
    def __init__(self) -> None:
        self.there = True

    def cut(self) -> None:
        self.there = False


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def door(clock: FakeClock) -> Lobby:
    return Lobby(clock)


def test_where_too_many_wait_the_fullest_address_loses_its_oldest(
    door: Lobby, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lobby, "MOST", 10)
    monkeypatch.setattr(lobby, "PATIENCE", 0.0)
    person, crowd = Guest(), [Guest() for _ in range(50)]
    door.enter(person, "10.0.0.1")
    for one in crowd:
        door.enter(one, "10.0.0.2")
    assert person.there, "whoever comes from elsewhere is not pushed out"
    assert [one.there for one in crowd] == [False] * 41 + [True] * 9
    assert door.count == 10


async def test_all_who_come_at_once_are_given_time_and_then_the_oldest_go(clock: FakeClock) -> None:
    door = Lobby(clock)
    crowd = [Guest() for _ in range(MOST + 300)]
    for one in crowd:
        door.enter(one, "a")
    assert all(one.there for one in crowd)
    await clock.advance(PATIENCE)
    door.enter(Guest(), "a")
    assert [one.there for one in crowd] == [False] * 301 + [True] * (MOST - 1)


def test_there_are_never_more_than_descriptors_allow(
    monkeypatch: pytest.MonkeyPatch, clock: FakeClock
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_000, 1_000))
    door = Lobby(clock)
    for _ in range(2_000):
        door.enter(Guest(), "a")
    assert door.count == 750


def test_who_was_let_in_or_is_gone_takes_no_place(door: Lobby, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lobby, "MOST", 3)
    guests = [Guest() for _ in range(9)]
    for one in guests:
        door.enter(one, "a")
        door.leave(one, "a")
        door.leave(one, "a")
    assert door.count == 0
    assert all(one.there for one in guests)


async def test_wrong_tokens_wait_longer_and_longer_and_a_minute_forgives_them(
    door: Lobby, clock: FakeClock
) -> None:
    waits = []
    for _ in range(100):
        waits.append(door.wait("eve"))
        door.wrong("eve")
    assert waits[: FREE + 1] == [0.0] * (FREE + 1)
    assert waits[FREE + 1] == STEP
    assert waits == sorted(waits)
    assert door.wait("eve") == LONGEST
    assert door.wait("ann") == 0.0
    await clock.advance(WINDOW + 1)
    assert door.wait("eve") == 0.0
    door.wrong("eve")
    assert door.wait("eve") == 0.0


def test_what_is_remembered_of_addresses_is_bounded(door: Lobby, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lobby, "ADDRESSES", 100)
    for _ in range(FREE + 2):
        door.wrong("0")
    for number in range(1, 101):
        door.wrong(str(number))
    assert door.wait("0") == 0.0


@pytest.mark.parametrize(
    ("client", "address"),
    [
        (("10.1.2.3", 5), "10.1.2.3"),
        (("2001:db8:1:2:3:4:5:6", 5), "2001:db8:1:2::/64"),
        (("2001:db8:1:2::9", 5), "2001:db8:1:2::/64"),
        (("::ffff:10.1.2.3", 5), "10.1.2.3"),
        (("fe80::1%eth0", 5), "fe80::/64"),
        (None, ""),
        (("a:socket", 0), "a:socket"),
    ],
)
def test_a_household_counts_as_one_address(client: object, address: str) -> None:
    assert address_of(client) == address

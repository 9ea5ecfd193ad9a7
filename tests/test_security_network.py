import ipaddress
from collections.abc import Sequence

import pytest

from nanobot.errors import Refused, ToolError
from nanobot.security.network import Guard, closed, system_lookup


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.254", "127.0.0.1", "127.255.0.1",
        "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.168.1.1", "198.18.0.1",
        "198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
        "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "::ffff:100.64.0.1", "::127.0.0.1",
        "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "fc00::1", "fd00:ec2::254",
        "fe80::1", "fec0::1", "ff02::1", "ff0e::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "5f00::1",
    ],
)  # fmt: skip
def test_an_address_that_is_not_public_is_closed(address: str) -> None:
    assert closed(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.167.1.1", "223.255.255.1",
        "2606:4700:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8", "64:ff9b::808:808",
    ],
)  # fmt: skip
def test_a_public_address_is_open(address: str) -> None:
    assert closed(ipaddress.ip_address(address)) == ""


def answering(*addresses: str) -> Guard:
    async def lookup(host: str) -> Sequence[str]:
        return addresses

    return Guard(lookup=lookup)


async def test_a_name_is_resolved_to_its_public_addresses() -> None:
    assert await answering("8.8.8.8", "2606:4700::1", "8.8.8.8").resolve("a.example") == [
        "8.8.8.8",
        "2606:4700::1",
    ]


async def test_one_closed_address_among_public_ones_refuses_the_name() -> None:
    with pytest.raises(Refused, match="private"):
        await answering("8.8.8.8", "10.0.0.5").resolve("a.example")


async def test_an_address_with_a_zone_is_refused() -> None:
    with pytest.raises(Refused, match="link-local"):
        await answering("fe80::1%eth0").resolve("a.example")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "[::1]", "localhost"]
)
async def test_every_spelling_of_this_machine_is_refused(host: str) -> None:
    with pytest.raises(Refused):
        await Guard(lookup=system_lookup).resolve(host)


async def test_an_unknown_name_is_an_error_and_no_refusal() -> None:
    async def lookup(host: str) -> Sequence[str]:
        raise OSError("Name or service not known")

    with pytest.raises(ToolError, match="could not be resolved") as raised:
        await Guard(lookup=lookup).resolve("nowhere.example")
    assert not isinstance(raised.value, Refused)


async def test_allowed_names_and_networks_are_exempt_and_nothing_beside_them() -> None:
    async def lookup(host: str) -> Sequence[str]:
        return {"wiki.lan": ["10.0.0.5"], "other.lan": ["192.168.7.7"], "evil.lan": ["10.0.0.5"]}[host]

    guard = Guard(["Wiki.LAN.", "192.168.7.0/24"], lookup=lookup)
    assert await guard.resolve("wiki.lan") == ["10.0.0.5"]
    assert await guard.resolve("other.lan.") == ["192.168.7.7"]
    with pytest.raises(Refused):
        await guard.resolve("evil.lan")


async def test_where_only_allowed_hosts_count_a_public_one_is_refused() -> None:
    async def lookup(host: str) -> Sequence[str]:
        return ["8.8.8.8"]

    guard = Guard(["docs.example"], only_allowed=True, lookup=lookup)
    assert await guard.resolve("docs.example") == ["8.8.8.8"]
    with pytest.raises(Refused, match="allowed_hosts"):
        await guard.resolve("else.example")

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from evensong.daemon.burst import Burst
from evensong.daemon.datagrams import Datagrams
from evensong.daemon.settings import DATAGRAM_MAX, Address, Multicast
from evensong.errors import CannotStart
from tests.daemon.local import DEADLINE_S, free_ports, own_host, wait_for

IPV6 = "::1"
SO_NO_CHECK = 11


def has_ipv6() -> bool:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((IPV6, 0))
        except OSError:
            return False
    return True


def pair(host: str) -> tuple[Datagrams, Datagrams]:
    here, there = (Address(host, port) for port in free_ports(host, 2))
    return Datagrams(here, {2: there}), Datagrams(there, {1: here})


@pytest.fixture(params=["IPv4", "IPv6"])
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[Datagrams, Datagrams]]:
    if request.param == "IPv6" and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    both = pair(own_host() if request.param == "IPv4" else IPV6)
    yield both
    for end in both:
        end.close()


def alone(datagram: bytes) -> Burst:
    return Burst(datagram, len(datagram))


def arrived(at: Datagrams, count: int) -> list[bytes]:
    got: list[bytes] = []

    def is_complete() -> bool:
        got.extend(one for burst in at.drain(64) for one in burst.split())
        return len(got) >= count

    wait_for(f"{count} datagrams", is_complete)
    return got


def test_what_is_sent_arrives_and_is_drained_in_bounds(ends: tuple[Datagrams, Datagrams]) -> None:
    here, there = ends
    assert [*there.drain(64)] == []
    for number in range(10):
        here.broadcast(alone(b"to all %d" % number))
    here.unicast(2, b"to one")
    expected = [b"to all %d" % number for number in range(10)] + [b"to one"]
    first = [one for burst in there.drain(4) for one in burst.split()]
    assert first + arrived(there, len(expected) - len(first)) == expected
    assert len(first) <= 4
    assert (here.sent, here.send_errors) == (11, {})


def test_what_cannot_be_sent_is_counted_and_never_raised(
    ends: tuple[Datagrams, Datagrams],
) -> None:
    here, there = ends
    here.broadcast(alone(bytes(DATAGRAM_MAX + 1)))
    here.unicast(2, bytes(DATAGRAM_MAX + 1))
    here.unicast(9, b"to nobody")
    assert here.send_errors == {"oversized": 2, "no address": 1}
    here.unicast(2, bytes(DATAGRAM_MAX))
    assert [len(one) for one in arrived(there, 1)] == [DATAGRAM_MAX]


def test_an_oversized_datagram_is_seen_to_be_one(ends: tuple[Datagrams, Datagrams]) -> None:
    _, there = ends
    with (
        socket.socket(fileno=os.dup(there.filenos()[0])) as same,
        socket.socket(there.family, socket.SOCK_DGRAM) as stranger,
    ):
        stranger.sendto(bytes(3 * DATAGRAM_MAX), same.getsockname())
    assert [len(one) > DATAGRAM_MAX for one in arrived(there, 1)] == [True]


@pytest.mark.parametrize("in_bursts", [True, False])
def test_every_empty_datagram_is_one(in_bursts: bool) -> None:
    host = own_host()
    here, there = (Address(host, port) for port in free_ports(host, 2))
    sender, receiver = Datagrams(here, {2: there}), Datagrams(there, {}, in_bursts=in_bursts)
    said = [b"", b"", b"x", b"", b""]
    for datagram in said:
        sender.broadcast(alone(datagram))
    assert arrived(receiver, len(said)) == said
    sender.close()
    receiver.close()


def test_an_ignored_peer_is_sent_nothing(ends: tuple[Datagrams, Datagrams]) -> None:
    here, there = ends
    here.ignore([2])
    here.broadcast(alone(b"lost"))
    here.unicast(2, b"lost")
    here.ignore([])
    here.broadcast(alone(b"heard"))
    assert arrived(there, 1) == [b"heard"]


def test_a_port_in_use_and_a_foreign_address_are_told_apart() -> None:
    address = Address(own_host(), free_ports("127.0.0.1", 1)[0])
    first = Datagrams(address, {})
    with pytest.raises(CannotStart, match="the port is in use"):
        Datagrams(address, {})
    first.close()
    with pytest.raises(CannotStart, match="does not have that address"):
        Datagrams(Address("192.0.2.1", 5405), {})


def test_peers_can_change(ends: tuple[Datagrams, Datagrams]) -> None:
    here, there = ends
    with socket.socket(fileno=os.dup(there.filenos()[0])) as same:
        at = Address(*same.getsockname()[:2])
    here.set_peers({3: at})
    here.unicast(2, b"to nobody")
    here.unicast(3, b"to one")
    here.set_peers({})
    here.broadcast(alone(b"to nobody"))
    here.set_peers({3: Address("192.0.2.1", 1)})
    assert "192.0.2.1" in here.address_of(3)
    here.set_peers({3: at, 4: at})
    here.broadcast(alone(b"to all"))
    assert arrived(there, 3) == [b"to one", b"to all", b"to all"]
    assert here.send_errors == {"no address": 1}


def test_a_name_that_a_peer_no_longer_has_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    host = own_host()
    here, there = (Address(host, port) for port in free_ports(host, 2))
    sender = Datagrams(here, {})
    asked, go_on = threading.Event(), threading.Event()
    real = socket.getaddrinfo

    def slow(name: str, port: int, **options: int) -> object:
        if name == "old.invalid":
            asked.set()
            assert go_on.wait(DEADLINE_S)
        return real(host, port, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    sender.set_peers({2: Address("old.invalid", 1), 3: Address("old.invalid", 3)})
    assert asked.wait(DEADLINE_S)
    sender.set_peers({2: Address("new.invalid", there.port)})  # while the old name is looked up
    go_on.set()
    wait_for("the new address", lambda: sender.address_of(2) == str(there))
    assert sender.address_of(3) == ""
    sender.close()


def test_a_name_is_resolved_and_one_that_is_not_known_can_be_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = own_host()
    here, there = (Address(host, port) for port in free_ports(host, 2))
    sender = Datagrams(here, {2: Address("localhost", there.port), 3: Address("n3.invalid", 1)})
    assert sender.address_of(2) == f"127.0.0.1:{there.port}"
    assert sender.address_of(3) == ""
    real = socket.getaddrinfo

    def moved(_host: str, _port: int, **options: int) -> object:
        return real(host, there.port, **options)

    sender.look_for_lost(0)  # in vain
    monkeypatch.setattr(socket, "getaddrinfo", moved)
    sender.look_for_lost(0)
    wait_for("the new address", lambda: sender.address_of(3) == str(there))
    sender.close()


@pytest.mark.parametrize("in_bursts", [True, False])
def test_a_burst_arrives_as_the_datagrams_it_was_made_of(in_bursts: bool) -> None:
    host = own_host()
    here, there = (Address(host, port) for port in free_ports(host, 2))
    sender = Datagrams(here, {2: there}, in_bursts=in_bursts)
    receiver = Datagrams(there, {}, in_bursts=not in_bursts)  # each end may lack it
    datagrams = [bytes([number]) * 1_000 for number in range(1, 41)] + [b"shorter"]
    if sender.burst_max() == 1:
        for datagram in datagrams:
            sender.broadcast(alone(datagram))
    else:
        sender.broadcast(Burst(b"".join(datagrams), 1_000))
    assert arrived(receiver, len(datagrams)) == datagrams
    assert sender.sent == len(datagrams)
    sender.close()
    receiver.close()


def test_a_path_that_takes_no_bursts_is_sent_one_by_one() -> None:
    host = own_host()
    here, there = (Address(host, port) for port in free_ports(host, 2))
    sender, receiver = Datagrams(here, {2: there}), Datagrams(there, {})
    # The kernel refuses segments on a socket that sends no checksums.
    with socket.socket(fileno=os.dup(sender.filenos()[0])) as same:
        same.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
    sender.broadcast(Burst(b"a" * 500, 100))
    assert arrived(receiver, 5) == [b"a" * 100] * 5
    assert sender.burst_max() == 1
    assert (sender.sent, sender.send_errors) == (5, {})
    sender.close()
    receiver.close()


def lone(at: Datagrams, by: Datagrams, times: int) -> None:
    """Let one short datagram come each time that somebody has waited for it."""
    for _ in range(times):
        by.unicast(2, b"token")
        assert [one.data for one in at.drain(64, has_waited=True)] == [b"token"]


def test_what_was_there_before_anybody_waited_is_drained_at_once(
    ends: tuple[Datagrams, Datagrams],
) -> None:
    here, there = ends
    lone(there, here, 3)
    for number in range(20):
        here.unicast(2, b"%d" % number)
    assert len([*there.drain(64)]) == 20


def test_the_first_that_comes_to_who_waits_on_a_calm_ring_is_handed_over_first(
    ends: tuple[Datagrams, Datagrams],
) -> None:
    here, there = ends
    lone(there, here, 2)
    drained: list[int] = []
    for has_waited in (True, False, True, True):
        for number in range(4):
            here.unicast(2, b"%d" % number)
        drained.append(len([*there.drain(64, has_waited=has_waited)]))
    first = 1 if there.is_merging else 4  # else there is nothing to be had by it
    assert drained == [first, 8 - first, 4, 4], "then it is calm no longer"


def test_what_a_group_hears_is_drained_though_a_token_came_by_itself() -> None:
    host = "127.0.0.1"
    multicast = Multicast(Address("239.255.101.5", free_ports(host, 1)[0]), host, 1)
    places = dict(enumerate((Address(host, port) for port in free_ports(host, 2)), start=1))
    here, there = (Datagrams(at, places, multicast=multicast) for at in places.values())
    with closing(here), closing(there):
        lone(there, here, 3)
        for number in range(5):
            here.broadcast(alone(b"%d" % number))
        here.unicast(2, b"token")
        assert len([*there.drain(64, has_waited=True)]) == 6


def group_of(host: str) -> Address:
    group = "ff15::e5" if ":" in host else "239.255.101.5"
    return Address(group, free_ports(host, 1)[0])


def test_a_group_hears_what_is_broadcast_once_and_its_speaker_too() -> None:
    host = "127.0.0.1"  # loopback carries no groups of IPv6; see tests/net
    multicast = Multicast(Address("239.255.101.5", free_ports(host, 1)[0]), host, 1)
    places = dict(enumerate((Address(host, port) for port in free_ports(host, 3)), start=1))
    members = [Datagrams(at, places, multicast=multicast) for at in places.values()]
    members[0].broadcast(Burst(b"".join(bytes([number]) * 900 for number in range(1, 60)), 900))
    members[0].unicast(3, b"for one")
    got = [arrived(member, 59) for member in members[:2]]
    got.append(arrived(members[2], 60))
    assert sorted(got[2])[:-1] == sorted(got[1]) == sorted(got[0])
    assert b"for one" in got[2]
    assert (members[0].sent, members[0].send_errors) == (60, {})
    assert [member.is_echoing() for member in members] == [True] * 3
    for member in members:
        member.close()


@pytest.mark.parametrize(
    ("group", "interface", "complaint"),
    [
        ("ff15::e5", "", "an address of the other IP"),
        ("239.255.101.5", "nosuch0", "no interface with this name"),
        ("239.255.101.5", "192.0.2.1", "multicast_interface"),
    ],
)
def test_a_group_that_cannot_be_joined_is_named(group: str, interface: str, complaint: str) -> None:
    here, there = free_ports("127.0.0.1", 2)
    multicast = Multicast(Address(group, there), interface, 1)
    with pytest.raises(CannotStart, match=f"multicast: .*{complaint}"):
        Datagrams(Address("127.0.0.1", here), {}, multicast=multicast)
    Datagrams(Address("127.0.0.1", here), {}).close()  # the port was let go

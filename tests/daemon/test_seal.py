import pytest

from evensong.core.ids import RingId
from evensong.core.totem import wire
from evensong.daemon.seal import ENVELOPE, OVERHEAD, Opener, Refused, Sealer, make_key
from evensong.daemon.settings import DATAGRAM_MAX

KEY = make_key(bytes(range(32)))
OTHER_KEY = make_key(bytes(32))
WINDOW = 64


def sealer(node: int = 1, incarnation: int = 5, boot: int = 9, cluster: str = "demo") -> Sealer:
    return Sealer(cluster, KEY, node, incarnation, boot)


def frame(node: int = 1, incarnation: int = 5) -> bytes:
    return wire.encode_leave(RingId(8, 1), node, incarnation)


def opener() -> Opener:
    return Opener("demo", (KEY,), WINDOW, DATAGRAM_MAX)


def refusal(by: Opener, datagram: bytes) -> str:
    with pytest.raises(Refused) as refused:
        by.open(datagram)
    return refused.value.reason


def test_what_is_sealed_opens_to_the_same_frame() -> None:
    datagram = sealer().seal(frame())
    assert opener().open(datagram) == frame()
    assert len(datagram) == len(frame()) + OVERHEAD


def test_no_datagram_is_like_another() -> None:
    seals = sealer()
    assert seals.seal(frame()) != seals.seal(frame())


def test_a_replay_is_refused_and_a_late_one_is_not() -> None:
    seals = sealer()
    datagrams = [seals.seal(frame()) for _ in range(WINDOW + 2)]
    opens = opener()
    opens.open(datagrams[-2])
    opens.open(datagrams[5])
    assert refusal(opens, datagrams[5]) == "replay"
    assert refusal(opens, datagrams[-2]) == "replay"
    assert refusal(opens, datagrams[0]) == "replay"  # too old to tell
    assert opens.open(datagrams[6]) == frame()


def test_every_flipped_bit_is_noticed() -> None:
    datagram = sealer().seal(frame())
    for index in range(len(datagram)):
        altered = bytearray(datagram)
        altered[index] ^= 1
        assert refusal(opener(), bytes(altered))


def test_a_refused_datagram_does_not_use_its_counter_up() -> None:
    datagram = sealer().seal(frame())
    opens = opener()
    assert refusal(opens, datagram[:-1] + b"\x00") in ("altered", "truncated")
    assert opens.open(datagram) == frame()


@pytest.mark.parametrize(
    ("datagram", "reason"),
    [
        (b"", "truncated"),
        (b"\x00" * 100, "not ours"),
        (sealer(cluster="other").seal(frame()), "cluster"),
        (Sealer("demo", OTHER_KEY, 1, 5, 9).seal(frame()), "key"),
        (Sealer("demo", None, 1, 5, 9).seal(frame()), "unsealed"),
        (sealer().seal(frame())[: ENVELOPE.size + 20], "truncated"),
        (sealer().seal(frame(node=2)), "frame of another transmitter"),
        (b"ES\x07" + sealer().seal(frame())[3:], "version"),
    ],
)
def test_every_refusal_has_its_reason(datagram: bytes, reason: str) -> None:
    assert refusal(opener(), datagram) == reason


def test_padding_behind_the_tag_is_ignored() -> None:
    assert opener().open(sealer().seal(frame()) + bytes(40)) == frame()


def test_keys_rotate_without_a_loss() -> None:
    opens = Opener("demo", (KEY,), WINDOW, DATAGRAM_MAX)
    old = sealer()
    new = Sealer("demo", OTHER_KEY, 1, 5, 9)
    assert opens.open(old.seal(frame())) == frame()
    opens.accept_keys((KEY, OTHER_KEY))
    assert opens.open(new.seal(frame())) == frame()
    assert opens.open(old.seal(frame())) == frame()
    opens.accept_keys((OTHER_KEY,))
    assert refusal(opens, old.seal(frame())) == "key"


def test_a_key_that_comes_back_makes_no_old_datagram_new() -> None:
    opens = Opener("demo", (KEY,), WINDOW, DATAGRAM_MAX)
    datagram = sealer().seal(frame())
    opens.open(datagram)
    opens.accept_keys((OTHER_KEY,))
    opens.accept_keys((KEY,))
    assert refusal(opens, datagram) == "replay"


def test_an_insecure_cluster_checks_that_datagrams_are_whole() -> None:
    datagram = Sealer("demo", None, 1, 5, 9).seal(frame())
    opens = Opener("demo", (), WINDOW, DATAGRAM_MAX)
    assert refusal(opens, datagram[:-1] + b"\x00") == "altered"
    assert opens.open(datagram) == frame()
    assert refusal(opens, sealer().seal(frame())) == "sealed"


def test_a_new_life_of_a_peer_begins_its_own_count() -> None:
    opens = opener()
    opens.open(sealer(boot=1).seal(frame()))
    assert opens.open(sealer(boot=2).seal(frame())) == frame()

import pytest
from hypothesis import given
from hypothesis.strategies import booleans, integers, just, lists, one_of, sampled_from, tuples

from evensong.core.ids import RingId
from evensong.core.totem import wire
from evensong.daemon.burst import Burst
from evensong.daemon.opening import STRANGERS_MAX, Opener
from evensong.daemon.seal import COUNTER, ENVELOPE, OVERHEAD, Key, Refused, Sealer, make_key
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


def test_an_insecure_cluster_takes_what_is_not_cut_short() -> None:
    datagram = Sealer("demo", None, 1, 5, 9).seal(frame())
    opens = Opener("demo", (), WINDOW, DATAGRAM_MAX)
    assert refusal(opens, datagram[:-1]) == "truncated"
    assert opens.open(datagram) == frame()
    assert refusal(opens, datagram) == "replay"
    assert refusal(opens, sealer().seal(frame())) == "sealed"


def test_a_new_life_of_a_peer_begins_its_own_count() -> None:
    opens = opener()
    opens.open(sealer(boot=1).seal(frame()))
    assert opens.open(sealer(boot=2).seal(frame())) == frame()


def changed(datagram: bytes, at: int) -> bytes:
    return datagram[:at] + bytes([datagram[at] ^ 1]) + datagram[at + 1 :]


@pytest.mark.parametrize("key", [KEY, None])
def test_a_burst_is_opened_as_one_after_the_other(key: Key | None) -> None:
    def life(node: int, boot: int = 9) -> Sealer:
        return Sealer("demo", key, node, 5, boot)

    first, second, reborn = life(1), life(2), life(1, boot=10)
    said = [first.seal(frame()) for _ in range(9)]
    other = [second.seal(frame(2)) for _ in range(4)]
    lies = [first.seal(frame()), first.seal(frame(2)), first.seal(frame())]
    bad_tail = changed(said[6], -1 + len(said[6])) if key else b"\xff" + said[6][1:]
    arrived = [
        said[:1],
        said[1:3],
        said[4:6],  # one is missing,
        said[3:4],  # and comes later
        [changed(said[6], 0), said[7]],
        [bad_tail, said[8]],
        said[5:7],
        other[1:3],
        [other[0], other[3]],
        other[:2],
        lies,
        [one + bytes(7) for one in (first.seal(frame()), first.seal(frame()))],
        [one + bytes(DATAGRAM_MAX) for one in (first.seal(frame()), first.seal(frame()))],
        [one[:40] for one in (first.seal(frame()), first.seal(frame()))],
        [first.seal(frame()), reborn.seal(frame())],
        [reborn.seal(frame()), reborn.seal(frame())],
    ]
    apart, together = (Opener("demo", (key,) if key else (), WINDOW, DATAGRAM_MAX) for _ in "ab")
    runs = 0
    for datagrams in arrived:
        expected = [opened(apart, one) for one in datagrams]
        run = together.open_burst(Burst(b"".join(datagrams), len(datagrams[0])))
        if run is None:
            assert [opened(together, one) for one in datagrams] == expected
        else:
            assert run.frames() == expected
            runs += 1
        assert together.lives() == apart.lives()
    assert runs == 4


# The counter of a datagram beyond the last one's, and the length of its frame as it says.
ODD = tuples(sampled_from([1, 1, 1, 0, 2, -3, 90]), one_of(just(25), just(25), integers(0, 70)))


@given(booleans(), booleans(), lists(lists(ODD, min_size=1, max_size=3), max_size=4))
def test_a_burst_of_odd_datagrams_is_opened_as_one_after_the_other(
    is_sealed: bool, is_padded: bool, rows: list[list[tuple[int, int]]]
) -> None:
    key = KEY if is_sealed else None
    seals = Sealer("demo", key, 1, 5, 9)
    apart, together = (Opener("demo", (key,) if key else (), WINDOW, DATAGRAM_MAX) for _ in "ab")
    for row in [[(1, 25)], *rows]:
        datagrams: list[bytes] = []
        for step, length in row:
            seals.counter = max(0, seals.counter + step - 1)
            datagram = seals.seal(frame()) + bytes(20 * is_padded)
            said = COUNTER.pack(seals.counter, length, 0, 1)
            datagrams.append(datagram[: ENVELOPE.size - len(said)] + said + frame())
            if length == len(frame()):
                datagrams[-1] = datagram
            datagrams[-1] = datagrams[-1].ljust(len(datagram), b"\0")
        expected = [outcome(apart, one) for one in datagrams]
        run = together.open_burst(Burst(b"".join(datagrams), len(datagrams[0])))
        assert (run.frames() if run else [outcome(together, one) for one in datagrams]) == expected
        assert together.lives() == apart.lives()


def outcome(opener: Opener, datagram: bytes) -> bytes | str:
    try:
        return opener.open(datagram)
    except Refused as refused:
        return refused.reason


def opened(opener: Opener, datagram: bytes) -> bytes:
    try:
        return opener.open(datagram)
    except Refused:
        return b""


@pytest.mark.parametrize("key", [KEY, None])
def test_a_burst_is_sealed_as_one_after_the_other(key: Key | None) -> None:
    apart, together = (Sealer("demo", key, 1, 5, 9) for _ in "ab")
    for sizes in ([30, 30, 30], [30], [30, 28, 29, 3]):
        frames = [frame() + bytes(size) for size in sizes]
        expected = [apart.seal(one) for one in frames]
        burst = together.seal_burst(frames)
        size = len(expected[0])
        assert burst.size == size
        padded = [*(one.ljust(size, b"\0") for one in expected[:-1]), expected[-1]]
        assert burst.split() == padded
    assert together.counter == apart.counter


def test_made_up_lives_are_looked_at_in_bounds_and_do_not_keep_a_true_one_out() -> None:
    opens = opener()
    opens.open(sealer().seal(frame()))
    made_up = [changed(sealer(boot=boot).seal(frame()), 60) for boot in range(100, 200)]
    told = [refusal(opens, datagram) for datagram in made_up]
    assert told == ["altered"] * (STRANGERS_MAX - 1) + ["unknown life"] * (101 - STRANGERS_MAX)
    assert refusal(opens, sealer(boot=300).seal(frame())) == "unknown life"
    assert refusal(opens, sealer(boot=300).seal(frame())[:-1]) == "truncated"
    opens.begin_turn()
    assert opens.open(sealer(boot=300).seal(frame())) == frame()

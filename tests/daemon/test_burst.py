import pytest

from evensong.daemon.burst import Burst, bursts


def test_frames_of_about_one_length_go_in_bursts_and_others_by_themselves() -> None:
    sizes = [90, 90, 85, 30, 90, 20, 190]
    frames = [bytes([at]) * size for at, size in enumerate(sizes, start=1)]
    made = bursts(frames, 10, 64, 1_452)
    assert [[len(one) for one in burst] for burst in made] == [[90, 90, 85, 30], [90, 20], [190]]
    assert [one for burst in made for one in burst] == frames
    assert bursts(frames, 10, 1, 1_452) == [[one] for one in frames]


@pytest.mark.parametrize(("size", "longest"), [(90, 64), (1_390, 46), (64_990, 1), (99_999, 1)])
def test_a_burst_is_what_the_kernel_takes_in_one_call(size: int, longest: int) -> None:
    made = bursts([bytes(size)] * 100, 10, 64, 65_507)
    assert len(made[0]) == longest
    assert sum(map(len, made)) == 100
    mixed = bursts([bytes(size)] * 99 + [b"shorter"], 10, 64, 65_507)
    assert max(map(len, mixed)) == longest
    assert sum(map(len, mixed)) == 100


@pytest.mark.parametrize("sizes", [(1_500, 1_400, 1_400), (1_500, 1_500)])
def test_what_is_too_long_to_be_sent_takes_nothing_along(sizes: tuple[int, ...]) -> None:
    made = bursts([*map(bytes, sizes)], 10, 64, 1_452)
    assert [len(one) for one in made[0]] == [1_500]


def test_a_burst_is_cut_at_equal_lengths() -> None:
    assert Burst(b"aabbc", 2).split() == [b"aa", b"bb", b"c"]
    assert Burst(b"aabb", 2).split() == [b"aa", b"bb"]
    assert Burst(b"", 0).split() == [b""]

import pytest

from evensong.core.ids import PROCESSORS_MAX, RingId
from evensong.core.totem.frames import CommitToken, MembEntry
from evensong.core.totem.parameters import PARAMETER_MAX, Parameters, datagram_least
from evensong.core.totem.parts import PARTS_MAX, split
from evensong.core.totem.wire import TABLE_MAX, encode_commit
from evensong.errors import BadParameters

GOOD = Parameters()


@pytest.mark.parametrize("processors", [1, 2, 9, 40])
def test_the_defaults_work(processors: int) -> None:
    GOOD.check(processors)
    assert GOOD.window_size >= GOOD.messages_max


@pytest.mark.parametrize("processors", [0, -1, PROCESSORS_MAX + 1])
def test_a_ring_has_from_one_to_the_largest_number_of_processors(processors: int) -> None:
    with pytest.raises(BadParameters, match=f"1..{PROCESSORS_MAX} processors"):
        GOOD.check(processors)


@pytest.mark.parametrize("name", Parameters._fields)
@pytest.mark.parametrize("value", [0, -5])
def test_every_parameter_is_positive(name: str, value: int) -> None:
    with pytest.raises(BadParameters, match="every parameter is positive"):
        GOOD._replace(**{name: value}).check(3)


@pytest.mark.parametrize(
    ("change", "kept", "rule"),
    [
        ({"token_retransmit": 3_751}, {"token_retransmit": 3_750}, "4 . token_retransmit"),
        ({"consensus": 4_000}, {"consensus": 4_001}, "consensus > 2 . join"),
        ({"hold": 7_500}, {"hold": 7_499}, "2 . hold < token_loss"),
        ({"beacon": 1_999}, {"beacon": 2_000}, "beacon >= join"),
        ({"visit_time_max": 1_501}, {"visit_time_max": 1_500}, "3 . .processors . visit_time"),
        ({"messages_max": 51}, {"messages_max": 50}, "messages_max <= window_size"),
        ({"receive_horizon": 49}, {"receive_horizon": 50}, "window_size <= receive_horizon"),
    ],
)
def test_a_rule_refuses_just_beyond_its_limit(
    change: dict[str, int], kept: dict[str, int], rule: str
) -> None:
    GOOD._replace(**kept).check(3)
    with pytest.raises(BadParameters, match=rule):
        GOOD._replace(**change).check(3)


def test_a_refusal_names_the_values_that_the_rule_speaks_about() -> None:
    with pytest.raises(BadParameters) as refused:
        GOOD._replace(token_loss=1_000, token_retransmit=2_500).check(3)
    assert str(refused.value).endswith(
        "token_loss >= 4 * token_retransmit; here token_retransmit = 2500 us, token_loss = 1 ms"
    )
    with pytest.raises(BadParameters) as refused:
        GOOD._replace(join=0).check(3)
    assert str(refused.value).endswith("every parameter is positive; here join = 0 ms")


def test_a_large_ring_needs_more_time_for_its_token() -> None:
    GOOD.check(45)
    with pytest.raises(BadParameters, match="visit_time_max"):
        GOOD.check(46)


@pytest.mark.parametrize("name", Parameters._fields)
def test_no_parameter_is_beyond_what_can_be_encoded(name: str) -> None:
    with pytest.raises(BadParameters, match="every parameter <= 1099511627776"):
        GOOD._replace(**{name: PARAMETER_MAX + 1}).check(3)
    GOOD._replace(ceiling_stride=PARAMETER_MAX).check(3)


@pytest.mark.parametrize("processors", [2, 9, PROCESSORS_MAX])
def test_the_largest_commit_token_fits_into_its_parts(processors: int) -> None:
    obligation = frozenset(range(1, TABLE_MAX + 1))
    ring_id = RingId(4, 1)
    memb = [
        MembEntry(node, True, ring_id, 0, 0, 0, True, obligation)
        for node in range(1, processors + 1)
    ]
    frame = encode_commit(CommitToken(ring_id, memb), 1, 1)
    least = datagram_least(processors)
    assert len(split(frame, 1, least)) <= PARTS_MAX
    with pytest.raises(AssertionError):
        split(frame, 1, least - 1)
    parameters = Parameters.for_ring(processors)
    parameters._replace(datagram_max=least).check(processors)
    with pytest.raises(BadParameters, match=f"datagram_max >= {least}"):
        parameters._replace(datagram_max=least - 1).check(processors)

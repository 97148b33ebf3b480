import json
from dataclasses import replace
from pathlib import Path

import pytest

from evensong.errors import BadTrace
from evensong.why import explain, story
from evensong.why.recorder import BYTES_MAX, from_entries, read_recorder
from tests.why.scribe import Scribe, ring_of_three


def explained(scribes: list[Scribe]) -> list[str]:
    accounts = [from_entries(one.entries, f"recorder {one.node}").account for one in scribes]
    *_, change = explain(accounts)
    return story(change)


def test_who_was_late_itself_is_named_and_that_nobody_else_suspected_anybody() -> None:
    one, two, three = ring_of_three()
    two.gathers("token loss", lag_us=412_000, heard="1:420000 3:415000")
    two.forms("12.1", 1, 2, 3)
    for other in (one, three):
        other.waits(500)
        other.gathers("join", 2, lag_us=900, heard="1:200 2:90 3:100")
        other.forms("12.1", 1, 2, 3)
    lines = explained([one, two, three])
    assert lines[:2] == [
        "change 2: ring 12.1 {1,2,3}, was 8.1 {1,2,3}",
        "  n2's own loop was 412 ms late: it suspected others, nobody else did",
    ]
    assert (
        "  n2: token loss; last token 12 from n1 (seq 5) 300 ms before; "
        "heard n1 420 ms, n3 415 ms; own loop 412 ms late"
    ) in lines


def test_whom_the_others_waited_for_is_named() -> None:
    one, two, three = ring_of_three()
    for other in (one, three):
        other.gathers("token loss", lag_us=900)
        other.waits(200_000)
        other.forms("12.1", 1, 2, 3)
    two.waits(100_000)
    two.gathers("join", 1, lag_us=412_000)
    two.forms("12.1", 1, 2, 3)
    lines = explained([one, two, three])
    assert lines[1] == "  n2's own loop was 412 ms late: n1 and n3 lost the token meanwhile"


def test_a_small_lateness_explains_nothing() -> None:
    one, two, three = ring_of_three()
    for scribe in (one, two, three):
        scribe.gathers("token loss", lag_us=90_000)
        scribe.forms("12.1", 1, 2, 3)
    lines = explained([one, two, three])
    assert lines[1] == (
        "  the token was lost (n1, n2 and n3 waited for it in vain): n3 had it last, and passed it "
        "to n1; nobody was late or gone: datagrams were lost"
    )


def test_a_lateness_shorter_than_the_silence_does_not_hide_a_partition() -> None:
    one, two, three = ring_of_three()
    for scribe in (one, two):
        scribe.gathers("token loss", lag_us=150_000)
        scribe.waits(200_000)
        scribe.gathers("consensus timeout", 3, proposed="1 2", failed="3", heard="3:500000")
        scribe.forms("12.1", 1, 2)
    three.gathers("token loss", lag_us=150_000)
    three.waits(200_000)
    silent = "1:500000 2:500000"
    three.gathers("consensus timeout", 1, proposed="3", failed="1 2", heard=silent)
    three.forms("12.3", 3)
    accounts = [from_entries(one.entries, "it").account for one in (one, two, three)]
    _, *changes = explain(accounts)
    for change in changes:
        assert change.causes[0].sentence == "partition: {1,2} | {3} each gave up the other side"


def test_a_life_that_ended_before_is_not_blamed_for_what_became_of_the_next() -> None:
    one, two, three = ring_of_three()  # the third is killed: its recorder stops here
    again = Scribe(3, at_us=12_000_000, incarnation=8)
    for scribe in (one, two, again):
        scribe.gathers("join", 3)
        scribe.forms("12.1", 1, 2, 3)
        scribe.waits(5_000_000)
    for scribe in (one, two):
        scribe.gathers("token loss")
        scribe.waits(200_000)
        scribe.gathers("consensus timeout", 3, proposed="1 2", failed="3", heard="3:500000")
        scribe.forms("16.1", 1, 2)
    again.gathers("token loss")
    again.waits(200_000)
    silent = "1:500000 2:500000"
    again.gathers("consensus timeout", 1, proposed="3", failed="1 2", heard=silent)
    again.forms("16.3", 3)
    accounts = [from_entries(who.entries, "it").account for who in (one, two, three, again)]
    accounts[2] = replace(accounts[2], ended="lost")
    told = {str(change.ring.ring_id): change for change in explain(accounts) if change.ring}
    for ring in ("16.1", "16.3"):
        sentence = told[ring].causes[0].sentence
        assert sentence == "partition: {1,2} | {3} each gave up the other side"


def test_a_lateness_of_before_the_ring_explains_nothing_of_its_end() -> None:
    one, two, three = ring_of_three()
    for scribe in (one, two, three):
        scribe.forms("12.1", 1, 2, 3)
        scribe.waits(400_000)
        lag_us = 412_000 if scribe is two else 0
        scribe.gathers("token loss", lag_us=lag_us)
        scribe.forms("16.1", 1, 2, 3)
    assert "token was lost" in explained([one, two, three])[1]


def test_what_one_recorder_alone_tells_is_told_and_what_it_cannot_is_said() -> None:
    one, _, _ = ring_of_three()
    one.gathers("token loss", heard="2:310000 3:1200")
    one.waits(200_000)
    failed = "consensus timeout"
    one.gathers(failed, 2, proposed="1 3", failed="2", heard="2:510000 3:900")
    one.forms("12.1", 1, 3)
    lines = explained([one])
    assert lines == [
        "change 2: ring 12.1 {1,3}, was 8.1 {1,2,3}; without n2",
        "  n2 was killed or cut off; n1 had not heard it for 510 ms when it gave it up",
        "  n1: token loss; last token 11 from n3 (seq 5) 300 ms before; "
        "heard n2 310 ms, n3 1.2 ms; gave up n2 (consensus timeout)",
        "  noticed after 310 ms, recovered in 203 ms "
        "(n1: agree 201 ms, commit 1.0 ms and recover 1.0 ms); times of one clock",
        "  not known: n2's recorder is not here",
        "  not known: n3's recorder is not here",
    ]


def test_recorders_of_different_hosts_agree_on_rings_not_on_times() -> None:
    one, two, three = (Scribe(node, host=f"host {node}", at_us=node * 10**10) for node in (1, 2, 3))
    for scribe in (one, two, three):
        scribe.gathers("start")
        scribe.forms("8.1", 1, 2, 3)
        scribe.waits(10_000_000)
    three.put("end", how="stop", cause="leave")
    for scribe in (one, two):
        scribe.gathers("leave", 3, proposed="1 2", failed="3", heard="3:250")
        scribe.forms("12.1", 1, 2)
    lines = explained([one, two, three])
    assert lines[:2] == [
        "change 2: ring 12.1 {1,2}, was 8.1 {1,2,3}; without n3",
        "  n3 left (stop)",
    ]
    assert lines[-1] == (
        "  noticed after 0.2 ms, recovered in 3.0 ms "
        "(n1: agree 1.0 ms, commit 1.0 ms and recover 1.0 ms); each node's time by its own clock"
    )


def test_a_recorder_that_has_forgotten_its_beginning_does_not_tell_that_it_started() -> None:
    one, _, _ = ring_of_three()
    del one.entries[1:7]  # up to the first ring of three, which is kept
    one.gathers("leave", 3, proposed="1 2", failed="3")
    one.forms("12.1", 1, 2)
    account = from_entries(one.entries, "it").account
    assert not account.has_beginning
    (change,) = explain([account])
    assert [cause.kind for cause in change.causes] == ["left"]


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = ring_of_three()[0].write(tmp_path / "flight-7.jsonl")
    whole = read_recorder(path)
    path.write_bytes(path.read_bytes()[:-20])
    torn = read_recorder(path)
    assert torn.is_torn
    assert not whole.is_torn
    assert torn.account.records == whole.account.records[:-1]


START = {"t_us": 1, "what": "start", "incarnation": 7, "boot": "00", "node": 1}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "does not begin with a start"),
        (b"\x00\xff\xfe\n", "line 1 is not JSON"),
        (b"[" * 100_000 + b"\n", "line 1 is not JSON"),
        (b"17\n", "line 1 is not a record"),
        (b'{"what": "start"}\n', "line 1 has no time"),
        (b'{"what": "start", "t_us": -5}\n', "line 1 has no time"),
        (b'{"what": "start", "t_us": 1e300}\n', "line 1 has no time"),
        (b'{"what": "start", "t_us": true}\n', "line 1 has no time"),
        (b'{"what": "start", "t_us": 1, "incarnation": 7, "boot": "00"}\n', "older release"),
        (json.dumps({**START, "node": 2**40}).encode() + b"\n", "does not say whose it is"),
        (json.dumps({**START, "what": "gone"}).encode() + b"\n", "line 1 is not a record"),
        (json.dumps({**START, "host": "\x1b[2J"}).encode() + b"\n", "'host' is not what"),
        (json.dumps({**START, "node": 10**30}).encode() + b"\n", "'node' is not what"),
        (json.dumps({**START, "host": [1]}).encode() + b"\n", "'host' is not what"),
        (json.dumps({**START, "\x07": 1}).encode() + b"\n", "is not what a recorder writes"),
        (json.dumps(START).encode() + b"\nnonsense\n", "line 2 is not JSON"),
        (json.dumps({**START, "what": "conf"}).encode() + b"\n", "does not begin with a start"),
    ],
)
def test_what_is_no_recorder_is_refused_in_a_sentence(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    path = tmp_path / "flight-7.jsonl"
    path.write_bytes(content)
    with pytest.raises(BadTrace, match=complaint) as refused:
        read_recorder(path)
    assert str(refused.value).startswith(str(path))
    assert str(refused.value).isprintable()


def test_a_file_beyond_all_measure_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "flight-7.jsonl"
    with path.open("wb") as file:
        file.truncate(BYTES_MAX + 1)
    with pytest.raises(BadTrace, match="larger than any"):
        read_recorder(path)
    with pytest.raises(BadTrace, match="No such file"):
        read_recorder(tmp_path / "flight-8.jsonl")


@pytest.mark.parametrize(
    "figures",
    [
        {"what": "conf", "conf": "x.y", "transitional": False, "members": "1"},
        {"what": "conf", "conf": "8.1", "transitional": False, "members": ""},
        {"what": "conf", "conf": "9" * 5000 + ".1", "transitional": False, "members": "1 2"},
        {"what": "conf"},
        {"what": "state"},
        {"what": "state", "state": "gather", "failed": "x -3 9", "about": "everybody"},
        {"what": "sight", "heard": "2:x :: 3"},
        {"what": "sight", "token_ring": "4.1", "token_seq": "no", "lag_us": "late"},
        {"what": "lag", "late_us": "late"},
        {"what": "end"},
    ],
)
def test_records_that_make_no_sense_make_no_story_and_no_trouble(
    figures: dict[str, object],
) -> None:
    one, two, three = ring_of_three()
    one.put(str(figures.pop("what")), **figures)
    one.gathers("token loss")
    one.put("sight", heard="2:x", lag_us="late", token_ring="8.1")
    one.forms("12.1", 1, 2, 3)
    for line in explained([one, two, three]):
        assert line.isprintable()


def kinds_of(*scribes: Scribe) -> list[tuple[str, tuple[int, ...]]]:
    accounts = [from_entries(one.entries, f"recorder {one.node}").account for one in scribes]
    *_, change = explain(accounts)
    return [(cause.kind, cause.nodes) for cause in change.causes]


def test_who_does_not_receive_is_named() -> None:
    one, two, three = ring_of_three()
    for scribe in (one, two):
        scribe.gathers("fail to receive", 3, proposed="1 2", failed="3")
        scribe.forms("12.1", 1, 2)
    assert kinds_of(one, two) == [("deaf", (3,))]
    three.gathers("fail to receive", 2, proposed="1 2 3")
    three.forms("12.1", 1, 2, 3)
    assert kinds_of(three) == [("deaf", (2,))]  # it came along all the same


def test_who_was_heard_and_did_not_come_is_named() -> None:
    one, two, three = ring_of_three()
    one.gathers("foreign beacon", 9, proposed="1 2 3 9")
    for scribe in (two, three):
        scribe.gathers("join", 1, proposed="1 2 3 9")
    for scribe in (one, two, three):
        scribe.forms("12.1", 1, 2, 3)
    assert kinds_of(one, two, three) == [("guest", (9,))]


def test_who_comes_has_started_if_its_recorder_says_so_and_else_nobody_knows() -> None:
    scribes = ring_of_three()
    four = Scribe(4)
    four.gathers("start", proposed="4")
    for scribe in scribes:
        scribe.gathers("join", 4, proposed="1 2 3 4", heard="4:100")
    for scribe in (*scribes, four):
        scribe.forms("12.1", 1, 2, 3, 4)
    assert kinds_of(*scribes, four) == [("join", (4,))]
    assert kinds_of(*scribes) == [("came", (4,))]


def test_who_finds_nobody_is_alone() -> None:
    one = Scribe(1)
    one.gathers("start", proposed="1")
    one.waits(200_000)
    one.put("state", state="operational", ring="8.1", cause="nobody else is here", about=0)
    one.installs("8.1", 1, cause="start")
    assert kinds_of(one) == [("alone", (1,))]


def test_who_was_given_up_and_went_elsewhere_of_its_own_is_not_called_dead() -> None:
    one, two, three = ring_of_three()
    for scribe in (one, two):
        scribe.gathers("token loss")
        scribe.waits(200_000)
        scribe.gathers("consensus timeout", 3, proposed="1 2", failed="3", heard="3:480000")
        scribe.forms("12.1", 1, 2)
    three.gathers("join", 7, proposed="3 7", failed="")
    three.forms("12.3", 3, 7)
    accounts = [from_entries(one.entries, "it").account for one in (one, two, three)]
    kinds = [[cause.kind for cause in change.causes] for change in explain(accounts)]
    assert kinds[1] == ["apart"]


def test_a_reason_that_no_rule_knows_is_repeated_not_explained() -> None:
    scribes = ring_of_three()
    for scribe in scribes:
        scribe.gathers("a whim")
        scribe.forms("12.1", 1, 2, 3)
    assert kinds_of(*scribes) == [("unknown", (1,))]
    assert explained(scribes)[1] == "  n1 left its ring (a whim); more is not recorded"

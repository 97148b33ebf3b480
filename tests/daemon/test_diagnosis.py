"""One test a cause: facts in, the sentence out."""

from dataclasses import replace

import pytest

from evensong.core.totem.parameters import LAN
from evensong.core.transis.parameters import LAN as LANSIS_LAN
from evensong.daemon.diagnosis import Finding, diagnose, sentences, summary
from evensong.daemon.facts import AboutFacts, Facts, PeerFacts, from_json, to_json

ABOUT = AboutFacts(
    version="0.1",
    state="operational",
    ring="8.1",
    members=[1, 2, 3],
    peers=[],
    parameters=LAN._asdict(),
    lag_us=2_000,
    heard_ms_ago=3,
    refused={},
)


def peer(node: int, **changed: object) -> PeerFacts:
    about = replace(ABOUT, peers=[other for other in (1, 2, 3) if other != node])
    healthy = PeerFacts(
        node=node,
        name=f"n{node}",
        configured=f"10.0.0.{node}:5405",
        address=f"10.0.0.{node}:5405",
        heard_ms_ago=5,
        ignored=False,
        refused={},
        refused_now={},
        incarnations=[100 + node],
        probes=6,
        answers=6,
        rtt_us=300,
        size=1_452,
        clock_offset_us=-40,
        about=about,
    )
    return replace(healthy, **changed)  # type: ignore[arg-type]


def silent(node: int, **changed: object) -> PeerFacts:
    nothing = {"answers": 0, "rtt_us": None, "size": None, "clock_offset_us": None, "about": None}
    return peer(node, **{**nothing, "heard_ms_ago": None, "incarnations": [], **changed})


def facts(*peers: PeerFacts, **changed: object) -> Facts:
    healthy = Facts(
        node=1,
        name="n1",
        cluster="demo",
        version="0.1",
        incarnation=101,
        listen="10.0.0.1:5405",
        state="operational",
        ring="8.1",
        members=[1, 2, 3],
        insecure=False,
        packet=1_452,
        parameters=LAN._asdict(),
        lag_us=4_000,
        strangers={},
        strangers_now={},
        twins=[],
        took_ms=1_200,
        peers=list(peers) or [peer(2), peer(3)],
    )
    return replace(healthy, **changed)  # type: ignore[arg-type]


def only(*reports: Facts) -> Finding:
    found = diagnose(reports)
    assert len(found) == 1, found
    return found[0]


def test_a_healthy_cluster_has_no_findings() -> None:
    assert diagnose([facts()]) == []
    assert summary(facts()) == "n1 is in ring 8.1 with all 3 nodes"
    assert "n1 is alone in ring 8.1; 3 nodes" in summary(facts(members=[1]))
    assert "n1 is in ring 8.1 of n1 and n3; 3 nodes" in summary(facts(members=[1, 3]))


def test_one_wrong_key_is_the_others_fault_and_all_wrong_keys_are_ours() -> None:
    wrong = {"refused": {"key": 9}, "refused_now": {"key": 4}}
    one = only(facts(silent(2, **wrong), peer(3)))
    assert (one.cause, one.about) == ("key", (2,))
    assert "n1 drops the datagrams of n2, which are sealed with a key" in one.sentence
    both = only(facts(silent(2, **wrong), silent(3, **wrong)))
    assert both.about == (2, 3)
    assert "wrong key: n2 and n3 and n1 drop each other's datagrams" in both.sentence
    assert "the key of n1 is likely the wrong one" in both.sentence


def test_whoever_is_silent_beside_a_wrong_key_may_be_kept_away_by_it() -> None:
    wrong = {"refused": {"key": 9}, "refused_now": {"key": 4}}
    found = diagnose([facts(silent(2, **wrong), silent(3))])
    assert [(one.cause, one.about) for one in found] == [("key", (2,)), ("silent", (3,))]
    assert "n3 at 10.0.0.3:5405; it may be in a ring with n2" in found[1].sentence


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("cluster", "foreign cluster: what claims to be n2 is of another cluster"),
        ("version", "n2 and n1 speak different major versions"),
        ("unsealed", "n2 runs with `insecure = true`, and n1 with a key"),
        ("sealed", "n2 runs with a key, and n1 with `insecure = true`"),
    ],
)
def test_what_is_refused_of_a_peer_is_named(reason: str, told: str) -> None:
    found = only(facts(silent(2, refused={reason: 1}, refused_now={reason: 1}), peer(3)))
    assert found.cause == reason
    assert told in found.sentence


def test_what_was_refused_long_ago_is_no_finding_once_it_answers() -> None:
    assert diagnose([facts(peer(2, refused={"key": 9}), peer(3))]) == []
    assert only(facts(silent(2, refused={"key": 9}), peer(3))).cause == "key"


@pytest.mark.parametrize("reason", ["altered", "replay"])
def test_damage_and_repetition_are_named(reason: str) -> None:
    found = only(facts(peer(2, refused_now={reason: 3}), peer(3)))
    assert found.cause == reason
    assert "n2" in found.sentence


def test_two_daemons_with_one_id_are_named_wherever_they_are_seen() -> None:
    by_a_third = only(facts(peer(2, incarnations=[102, 205]), peer(3)))
    assert by_a_third.cause == "twin"
    assert "two daemons use the id of n2: both speak (incarnations 102, 205)" in by_a_third.sentence
    by_itself = only(facts(twins=[999]))
    assert by_itself.cause == "twin"
    assert "incarnation 101 is this one, and 999 speaks too" in by_itself.sentence
    together = only(facts(), facts(listen="10.0.0.9:5405", name="other"))
    assert together.cause == "twin"
    assert "n1 at 10.0.0.1:5405 and other at 10.0.0.9:5405" in together.sentence


def test_a_name_that_is_not_resolved_is_named_alone() -> None:
    found = only(facts(silent(2, address="", configured="n2.invalid:5405"), peer(3)))
    assert found.cause == "name"
    assert "n2.invalid:5405 cannot be resolved" in found.sentence


def test_a_one_way_link_differs_from_silence() -> None:
    one_way = only(facts(silent(2, heard_ms_ago=30), peer(3)))
    assert one_way.cause == "one-way"
    assert "n1 hears n2 but is not answered" in one_way.sentence
    gone = only(facts(silent(2, heard_ms_ago=30_000), peer(3)))
    assert gone.cause == "silent"
    assert "nothing comes from n2 at 10.0.0.2:5405" in gone.sentence


def test_what_several_find_is_said_once() -> None:
    gone = silent(3, heard_ms_ago=30_000)
    here, there = facts(peer(2), gone), facts(peer(1), gone, node=2, name="n2")
    one = only(here).sentence
    assert sentences(diagnose([here])) == [one]
    assert sentences(diagnose([here, there])) == [f"{one} (found by n1 and n2)"]


def test_the_report_of_the_other_explains_a_one_way_link() -> None:
    here = facts(silent(2, heard_ms_ago=30), peer(3))
    there = facts(peer(1, refused_now={"key": 3}), peer(3), node=2, name="n2")
    causes = {finding.cause: finding.sentence for finding in diagnose([here, there])}
    assert causes["refused there"] == "n2 drops the datagrams of n1: key"
    assert "one-way" not in causes


def test_differing_parameters_are_named_with_both_values() -> None:
    other = replace(peer(2).about or ABOUT, parameters=LAN._replace(window_size=8)._asdict())
    found = only(facts(peer(2, about=other), peer(3)))
    assert found.cause == "parameters"
    assert f"n2: window_size is 8 there and {LAN.window_size} here" in found.sentence
    assert "a busy ring breaks" in found.sentence
    slower = replace(other, parameters=LAN._replace(token_loss=LAN.token_loss + 1)._asdict())
    assert "a busy ring breaks" not in only(facts(peer(2, about=slower), peer(3))).sentence


def test_differing_lists_of_peers_name_who_is_missing() -> None:
    shorter, longer = replace(ABOUT, peers=[1]), replace(ABOUT, peers=[1, 3, 4])
    assert "n2 does not list n3" in only(facts(peer(2, about=shorter), peer(3))).sentence
    found = only(facts(peer(2, about=longer), peer(3)))
    assert (found.cause, found.about) == ("peers", (2,))
    assert "n2 lists n4 too" in found.sentence


def test_a_ring_apart_is_told() -> None:
    apart = replace(peer(2).about or ABOUT, ring="12.2")
    found = only(facts(peer(2, about=apart), peer(3)))
    assert found.cause == "apart"
    assert "n1 is in ring 8.1 and n2 in 12.2" in found.sentence


def test_a_path_that_carries_less_than_a_packet_is_named() -> None:
    found = only(facts(peer(2, size=1_280), peer(3)))
    assert found.cause == "mtu"
    assert "set `packet = 1280` at all daemons" in found.sentence


def test_few_answers_tell_of_loss_and_nothing_of_sizes() -> None:
    found = only(facts(peer(2, answers=2, probes=17, size=1_424), peer(3)))
    assert found.cause == "loss"
    assert "n2 answers hardly any question" in found.sentence


def test_a_clock_that_differs_is_named() -> None:
    found = only(facts(peer(2, clock_offset_us=3_600_000_000), peer(3)))
    assert found.cause == "clock"
    assert "n2 3600.0 s ahead" in found.sentence


def test_a_machine_that_is_late_is_named_be_it_ours_or_a_peers() -> None:
    third = LAN.token_loss // 3
    assert diagnose([facts(lag_us=third)]) == []
    own = only(facts(lag_us=third + 1))
    assert own.cause == "lag"
    assert "n1 itself attended to timers up to 100 ms late" in own.sentence
    late = replace(peer(2).about or ABOUT, lag_us=third + 1)
    other = only(facts(peer(2, about=late), peer(3)))
    assert (other.cause, other.about) == ("lag", (2,))
    itself = facts(peer(1), peer(3), node=2, name="n2", lag_us=third + 1)
    both = only(facts(peer(2, about=late), peer(3)), itself)
    assert "n2 itself attended to timers" in both.sentence


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("not a peer", "somebody who has the key is not in `peers` of n1"),
        ("cluster", "datagrams of another cluster arrive at 10.0.0.1:5405"),
        ("not ours", "something that is not evensong sends to 10.0.0.1:5405 (7 in 1.2 s)"),
        ("oversized", "larger than a packet"),
        ("truncated", "cut short"),
    ],
)
def test_what_strangers_send_is_named(reason: str, told: str) -> None:
    found = only(facts(strangers={reason: 70}, strangers_now={reason: 7}))
    assert (found.cause, found.about) == (reason, ())
    assert told in found.sentence


def test_an_ignored_peer_is_a_tests_doing() -> None:
    assert only(facts(silent(2, ignored=True), peer(3))).cause == "ignored"


def test_facts_survive_the_way_through_json() -> None:
    one = facts(silent(2, refused={"key": 1}), peer(3))
    assert from_json(to_json(one)) == one
    with pytest.raises(TypeError):
        from_json({**to_json(one), "peers": None})
    with pytest.raises(KeyError):
        from_json({"node": 1, "peers": []})


def test_daemons_of_two_engines_are_told_so() -> None:
    there = replace(ABOUT, state="stable", ring="3.77", parameters=LANSIS_LAN._asdict())
    found = only(facts(peer(2, about=there), peer(3)))
    assert (found.cause, found.about) == ("engine", (2,))
    assert "n1 runs totem and n2 transis: `engine` must be the same" in found.sentence


def test_lateness_is_measured_by_the_patience_of_a_domain() -> None:
    lansis = LANSIS_LAN._asdict()
    mates = [
        peer(n, about=replace(one.about, state="stable", parameters=lansis))
        for n in (2, 3)
        if (one := peer(n)).about
    ]
    patience = LANSIS_LAN.patience()
    calm = facts(*mates, state="stable", parameters=lansis, lag_us=patience // 3)
    assert diagnose([calm]) == []
    found = only(replace(calm, lag_us=patience // 3 + 1_000))
    assert found.cause == "lag"
    assert f"with a patience of {patience / 1e3:g} ms" in found.sentence

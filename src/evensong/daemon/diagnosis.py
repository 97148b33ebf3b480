"""From what examinations found to its likely cause, in one sentence each. Pure."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from evensong.core.engine import TRANSIS, engine_in
from evensong.core.ids import ProcessorId
from evensong.daemon.facts import Facts, PeerFacts

REFUSED: Final = frozenset(["key", "cluster", "version", "unsealed", "sealed"])
ANSWERS_LEAST: Final = 3  # of the five small probes; fewer say nothing of larger ones
CLOCK_US: Final = 500_000
LAG_SHARE: Final = 3  # a lateness beyond this part of others' patience explains suspicions


class Finding(NamedTuple):
    """Something that is wrong."""

    cause: str  # a word, for programs
    seen_by: ProcessorId
    about: tuple[ProcessorId, ...]
    sentence: str


Rule: TypeAlias = Callable[[Facts, PeerFacts], bool]
Words: TypeAlias = Callable[[Facts, list[PeerFacts]], str]


def diagnose(reports: Sequence[Facts]) -> list[Finding]:
    """Return what is wrong, the gravest first for each daemon; several reports explain more."""
    found = _same_id(reports)
    for facts in reports:
        found += _of_itself(facts)
        found += _of_peers(facts, reports)
        found += _of_strangers(facts)
    return found


def sentences(findings: Sequence[Finding]) -> list[str]:
    """Return what was found, each sentence once; where several found the same, who did."""
    seen: dict[str, list[ProcessorId]] = {}
    for finding in findings:
        seen.setdefault(finding.sentence, []).append(finding.seen_by)
    return [
        sentence if len(by) == 1 else f"{sentence} (found by {_listed(by)})"
        for sentence, by in seen.items()
    ]


def summary(facts: Facts) -> str:
    """Say in one sentence how this daemon stands."""
    configured = len(facts.peers) + 1
    where = f"{_noun(facts)} {facts.ring}"
    if len(facts.members) == configured:
        return f"{facts.name} is in {where} with all {configured} nodes"
    if len(facts.members) == 1:
        return f"{facts.name} is alone in {where}; {configured} nodes are configured"
    return (
        f"{facts.name} is in {where} of {_listed(facts.members)}; {configured} nodes are configured"
    )


# Peers: the first rule that holds names the cause; peers with one cause share a sentence.


def _of_peers(facts: Facts, reports: Sequence[Facts]) -> list[Finding]:
    by_cause: dict[str, list[PeerFacts]] = {}
    examined = {report.node for report in reports}
    for peer in facts.peers:
        for cause in _causes(facts, peer):
            if cause != "lag" or peer.node not in examined:  # who is late says so itself
                by_cause.setdefault(cause, []).append(peer)
    found = []
    for cause, _, words in RULES:
        peers = by_cause.get(cause, [])
        if cause == "one-way":
            found += _refused_there(facts, peers, reports)
            explained = {
                node for one in found if one.cause == "refused there" for node in one.about
            }
            peers = [peer for peer in peers if peer.node not in explained]
        if peers:
            about = tuple(peer.node for peer in peers)
            found.append(Finding(cause, facts.node, about, words(facts, peers)))
    return found


def _causes(facts: Facts, peer: PeerFacts) -> list[str]:
    """Return the one grave cause that keeps a peer away, or all lesser ones."""
    for cause, holds, _ in RULES[:GRAVE]:
        if holds(facts, peer):
            return [cause]
    return [cause for cause, holds, _ in RULES[GRAVE:] if holds(facts, peer)]


def _is_refused(reason: str) -> Rule:
    return lambda _, peer: (
        reason in peer.refused_now
        or (not peer.answers and peer.heard_ms_ago is None and reason in peer.refused)
    )


def _is_one_way(facts: Facts, peer: PeerFacts) -> bool:
    """Whether it was heard during the examination and answered nothing."""
    heard = peer.heard_ms_ago
    return not peer.answers and heard is not None and heard < facts.took_ms


def _has_other_engine(facts: Facts, peer: PeerFacts) -> bool:
    """Whether a peer tells a state that only another engine has."""
    here, there = engine_in(facts.state), engine_in(peer.about.state if peer.about else "")
    return bool(here and there) and here != there


def _say_engine(facts: Facts, peers: list[PeerFacts]) -> str:
    theirs = ", ".join(f"{one.name} {engine_in(one.about.state)}" for one in peers if one.about)
    return (
        f"{facts.name} runs {engine_in(facts.state)} and {theirs}: `engine` must be the same at "
        "all daemons, and who differs is not heard"
    )


def _differing(facts: Facts, peer: PeerFacts) -> list[str]:
    """Name the parameters in which a peer differs, with both values."""
    if peer.about is None:
        return []
    theirs = peer.about.parameters
    return [
        f"{key} is {theirs[key]} there and {value} here"
        for key, value in facts.parameters.items()
        if theirs.get(key, value) != value
    ]


def _unlisted(facts: Facts, peer: PeerFacts) -> set[ProcessorId]:
    """Return the nodes that only one of the two lists."""
    if peer.about is None:
        return set()
    here = {facts.node, *(one.node for one in facts.peers)}
    return here ^ {peer.node, *peer.about.peers}


def _is_apart(facts: Facts, peer: PeerFacts) -> bool:
    return peer.about is not None and peer.about.ring != facts.ring


def _say_apart(facts: Facts, peers: list[PeerFacts]) -> str:
    rings = ", ".join(f"{one.name} in {one.about.ring}" for one in peers if one.about)
    return (
        f"{facts.name} is in {_noun(facts)} {facts.ring} and {rings}, though they hear each "
        "other: a change is under way; ask again"
    )


def _is_late(facts: Facts, lag_us: int) -> bool:
    return lag_us > _patience(facts)[1] // LAG_SHARE


def _patience(facts: Facts) -> tuple[str, int]:
    """Return after how long a silence others suspect this daemon, and what that is called."""
    told = facts.parameters
    if "token_loss" in told:
        return "token_loss", told["token_loss"]
    return "patience", 2 * told["heartbeat"] + told["pace_max"] + told["probes"] * told["probe"]


def _say_key(facts: Facts, peers: list[PeerFacts]) -> str:
    me = facts.name
    if len(facts.peers) > 1 and all(one in peers or not one.answers for one in facts.peers):
        return (
            f"wrong key: {_names(peers)} and {me} drop each other's datagrams, and nobody else "
            f"answers; the key of {me} is likely the wrong one"
        )
    return (
        f"wrong key: {me} drops the datagrams of {_names(peers)}, which are sealed with a key that "
        "it does not have; compare the key files (`keys`)"
    )


def _say_parameters(facts: Facts, peers: list[PeerFacts]) -> str:
    details = "; ".join(f"{one.name}: {', '.join(_differing(facts, one))}" for one in peers)
    said = f"parameters differ, and must be the same at all daemons ({details})"
    is_outage = "window_size is" in details  # who has the smaller one refuses honest tokens
    return said + "; with different windows (`packet`) a busy ring breaks" if is_outage else said


def _say_peers(facts: Facts, peers: list[PeerFacts]) -> str:
    details = []
    for peer in peers:
        here = {facts.node, *(one.node for one in facts.peers)}
        only = _unlisted(facts, peer)
        missing, further = sorted(only & here), sorted(only - here)
        if missing:
            details.append(f"{peer.name} does not list {_listed(missing)}")
        if further:
            details.append(f"{peer.name} lists {_listed(further)} too")
    return f"the lists of peers differ: {', '.join(details)}; reload whoever has the older list"


def _say_size(facts: Facts, peers: list[PeerFacts]) -> str:
    least = min(peer.size or 0 for peer in peers)
    return (
        f"the path to {_names(peers)} carries datagrams of {least} bytes at most, and `packet` is "
        f"{facts.packet}: raise the MTU on the way, or set `packet = {least}` at all daemons"
    )


def _say_clock(facts: Facts, peers: list[PeerFacts]) -> str:
    details = ", ".join(
        f"{one.name} {abs(one.clock_offset_us or 0) / 1e6:.1f} s "
        f"{'ahead' if (one.clock_offset_us or 0) > 0 else 'behind'}"
        for one in peers
    )
    return (
        f"clocks differ from that of {facts.name}: {details}; the protocol does not mind, logs "
        "and traces do"
    )


def _say_late(facts: Facts, peers: list[PeerFacts]) -> str:
    worst = max(one.about.lag_us for one in peers if one.about)
    name, patience = _patience(facts)
    return (
        f"{_names(peers)} attended to timers up to {worst / 1e3:.0f} ms late, with a {name} of "
        f"{patience / 1e3:g} ms: too busy a machine, or too short a timeout"
    )


def _say_silent(facts: Facts, peers: list[PeerFacts]) -> str:
    at = ", ".join(peer.configured for peer in peers)
    # In a ring of others only one member speaks to those outside.
    refused = [one for one in facts.peers if one.refused_now.keys() & REFUSED]
    if refused:
        return (
            f"silent: nothing comes from {_names(peers)} at {at}; it may be in a {_noun(facts)} "
            f"with {_names(refused)}, and kept away by the same"
        )
    return (
        f"silent: nothing comes from {_names(peers)} at {at}; its daemon does not run, the address "
        "is wrong, or a firewall is in between"
    )


def _say_twin(_: Facts, peers: list[PeerFacts]) -> str:
    return (
        f"two daemons use the id of {_names(peers)}: both speak "
        f"(incarnations {', '.join(map(str, peers[0].incarnations))}); give one of them another id"
    )


def _say(text: str) -> Words:
    """Return words with the peers' names in place of {peers} and ours of {me}."""
    return lambda facts, peers: text.format(
        peers=_names(peers), me=facts.name, at=", ".join(peer.configured for peer in peers)
    )


RULES: Final[tuple[tuple[str, Rule, Words], ...]] = (
    (
        "ignored",
        lambda _, peer: peer.ignored,
        _say("{me} was told to ignore {peers}, for a test"),
    ),
    (
        "twin",
        lambda _, peer: len(peer.incarnations) > 1,
        _say_twin,
    ),
    (
        "name",
        lambda _, peer: not peer.address,
        _say("the address of {peers} is not known: {at} cannot be resolved"),
    ),
    ("key", _is_refused("key"), _say_key),
    (
        "cluster",
        _is_refused("cluster"),
        _say(
            "foreign cluster: what claims to be {peers} is of another cluster; two clusters share "
            "the address {at}, or a `cluster` name is misspelt"
        ),
    ),
    (
        "version",
        _is_refused("version"),
        _say("version: {peers} and {me} speak different major versions of the wire"),
    ),
    (
        "unsealed",
        _is_refused("unsealed"),
        _say("unsealed: {peers} runs with `insecure = true`, and {me} with a key"),
    ),
    (
        "sealed",
        _is_refused("sealed"),
        _say("sealed: {peers} runs with a key, and {me} with `insecure = true`"),
    ),
    (
        "one-way",
        _is_one_way,
        _say(
            "one way only: {me} hears {peers} but is not answered; something on the way, or "
            "{peers} itself, drops what {me} sends (`evensong doctor` there tells)"
        ),
    ),
    (
        "silent",
        lambda _, peer: not peer.answers,
        _say_silent,
    ),
    ("engine", _has_other_engine, _say_engine),
    ("parameters", lambda facts, peer: bool(_differing(facts, peer)), _say_parameters),
    ("peers", lambda facts, peer: bool(_unlisted(facts, peer)), _say_peers),
    ("apart", _is_apart, _say_apart),
    (
        "loss",
        lambda _, peer: 0 < peer.answers < ANSWERS_LEAST,
        _say(
            "{peers} answers hardly any question: datagrams get lost on the way, or it has just "
            "started"
        ),
    ),
    (
        "mtu",
        lambda facts, peer: peer.answers >= ANSWERS_LEAST and (peer.size or 0) < facts.packet,
        _say_size,
    ),
    (
        "altered",
        _is_refused("altered"),
        _say("altered: datagrams that claim to be of {peers} are damaged on the way, or forged"),
    ),
    (
        "replay",
        _is_refused("replay"),
        _say(
            "replay: datagrams of {peers} arrive twice; a network that doubles them, or an attack"
        ),
    ),
    (
        "lag",
        lambda facts, peer: peer.about is not None and _is_late(facts, peer.about.lag_us),
        _say_late,
    ),
    (
        "clock",
        lambda _, peer: abs(peer.clock_offset_us or 0) > CLOCK_US,
        _say_clock,
    ),
)
GRAVE: Final = next(n for n, rule in enumerate(RULES) if rule[0] == "parameters")


# What is not about one peer


def _of_itself(facts: Facts) -> list[Finding]:
    found = []
    if facts.twins:
        found.append(
            Finding(
                "twin",
                facts.node,
                (facts.node,),
                f"two daemons use the id of {facts.name}: incarnation {facts.incarnation} is this "
                f"one, and {', '.join(map(str, facts.twins))} speaks too; give one of them "
                "another id",
            )
        )
    if _is_late(facts, facts.lag_us):
        name, patience = _patience(facts)
        found.append(
            Finding(
                "lag",
                facts.node,
                (facts.node,),
                f"{facts.name} itself attended to timers up to {facts.lag_us / 1e3:.0f} ms late, "
                f"with a {name} of {patience / 1e3:g} ms: too busy a "
                "machine, or too short a timeout",
            )
        )
    return found


STRANGERS: Final = {
    "not a peer": "somebody who has the key is not in `peers` of {me}; reload it with the new list",
    "cluster": "foreign cluster: datagrams of another cluster arrive at {listen}; two share it",
    "key": "wrong key: nodes that are not in `peers` send datagrams under another key to {listen}",
    "version": "version: another major version of the wire is spoken to {listen}",
    "not ours": "something that is not evensong sends to {listen}",
    "truncated": "datagrams that arrive at {listen} are cut short, or not of evensong",
    "oversized": "datagrams larger than a packet arrive at {listen}; they are not of evensong",
    "unsealed": "unsealed: datagrams without a key arrive at {listen}",
    "sealed": "sealed: datagrams under a key arrive at {listen}, where `insecure = true`",
}


def _of_strangers(facts: Facts) -> list[Finding]:
    return [
        Finding(
            reason,
            facts.node,
            (),
            STRANGERS[reason].format(me=facts.name, listen=facts.listen)
            + f" ({count} in {facts.took_ms / 1e3:.1f} s)",
        )
        for reason, count in facts.strangers_now.items()
        if reason in STRANGERS
    ]


# What several reports tell together


def _same_id(reports: Sequence[Facts]) -> list[Finding]:
    found = []
    for number, one in enumerate(reports):
        for other in reports[:number]:
            if (one.cluster, one.node) == (other.cluster, other.node):
                sentence = (
                    f"two daemons use the id {one.node}: {other.name} at {other.listen} and "
                    f"{one.name} at {one.listen}; give one of them another id"
                )
                found.append(Finding("twin", one.node, (one.node,), sentence))
    return found


def _refused_there(facts: Facts, peers: list[PeerFacts], reports: Sequence[Facts]) -> list[Finding]:
    """Explain by their own reports why peers that are heard do not answer."""
    found = []
    for peer in peers:
        for report in reports:
            if report.node == peer.node:
                reasons = [
                    reason
                    for one in report.peers
                    if one.node == facts.node
                    for reason in one.refused_now
                ]
                if reasons:
                    sentence = f"{peer.name} drops the datagrams of {facts.name}: {reasons[0]}"
                    found.append(Finding("refused there", facts.node, (peer.node,), sentence))
    return found


def _noun(facts: Facts) -> str:
    """Return what the engine of a daemon calls those who are together."""
    return "view" if engine_in(facts.state) == TRANSIS else "ring"


def _names(peers: list[PeerFacts]) -> str:
    return _joined([peer.name for peer in peers])


def _listed(nodes: Sequence[ProcessorId]) -> str:
    return _joined([f"n{node}" for node in nodes])


def _joined(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)

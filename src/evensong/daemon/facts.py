"""What one daemon's examination found: plain values, written as JSON and read back."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TypeVar

from evensong.core.ids import ProcessorId

Made = TypeVar("Made", "AboutFacts", "PeerFacts", "Facts")


@dataclass(frozen=True, slots=True)
class AboutFacts:
    """What a peer said of itself."""

    version: str
    state: str
    ring: str
    members: list[ProcessorId]
    peers: list[ProcessorId]
    parameters: dict[str, int]
    lag_us: int
    heard_ms_ago: int | None  # when it heard the ring of ours last
    refused: dict[str, int]  # what it refused of us since its start


@dataclass(frozen=True, slots=True)
class PeerFacts:
    """What was found about one peer."""

    node: ProcessorId
    name: str
    configured: str
    address: str  # empty: its name is not resolved
    heard_ms_ago: int | None
    ignored: bool
    refused: dict[str, int]  # what claimed to be from it, since the start
    refused_now: dict[str, int]  # and during the examination
    incarnations: list[int]  # of it, that spoke during the examination
    probes: int
    answers: int
    rtt_us: int | None
    size: int | None  # bytes of the largest datagram that arrived there
    clock_offset_us: int | None
    about: AboutFacts | None


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found by one daemon."""

    node: ProcessorId
    name: str
    cluster: str
    version: str
    incarnation: int
    listen: str
    state: str
    ring: str
    members: list[ProcessorId]
    insecure: bool
    packet: int
    parameters: dict[str, int]
    lag_us: int
    strangers: dict[str, int]  # what was refused of nobody we know, since the start
    strangers_now: dict[str, int]
    twins: list[int]  # other incarnations that use this node's id
    took_ms: int
    peers: list[PeerFacts]


def to_json(facts: Facts) -> dict[str, object]:
    """Return the facts as values that JSON can carry."""
    return asdict(facts)


def from_json(answer: Mapping[str, object]) -> Facts:
    """Read facts back; a `KeyError` or a `TypeError` means that they are of another release."""
    peers = []
    for raw in _list(answer["peers"]):
        about = raw["about"]
        known = _made(AboutFacts, about) if isinstance(about, dict) else None
        peers.append(_made(PeerFacts, {**raw, "about": known}))
    return _made(Facts, {**answer, "peers": peers})


def _made(kind: type[Made], raw: Mapping[str, object]) -> Made:
    return kind(**{field.name: raw[field.name] for field in fields(kind)})  # type: ignore[arg-type]


def _list(raw: object) -> list[dict[str, object]]:
    if not isinstance(raw, list):
        raise TypeError("no list of peers")
    return raw

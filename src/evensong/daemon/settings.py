"""One TOML file, one frozen `Settings`: every limit and timeout a person may choose.

Whatever is wrong is refused with a message that names the key and what is allowed. An environment
variable `EVENSONG_<KEY>` overrides a key of the file.
"""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from evensong.core.ids import PROCESSOR_MAX, PROCESSORS_MAX, ProcessorId
from evensong.core.totem.parameters import PROFILES, Parameters
from evensong.daemon.seal import OVERHEAD
from evensong.errors import BadParameters, BadSettings

Value = TypeVar("Value")

DURATION: Final = re.compile(r"(\d+)(us|ms|s)")
UNIT_US: Final = {"us": 1, "ms": 1_000, "s": 1_000_000}
CLUSTER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
TIMEOUTS: Final = (
    "token_retransmit",
    "token_loss",
    "join",
    "consensus",
    "beacon",
    "hold",
    "fail_to_rcv_time",
)
PREFIX: Final = "EVENSONG_"
# What fits a path of 1500 bytes behind the larger of the two IP headers (40) and that of UDP (8).
DATAGRAM_MAX: Final = 1_452


class Address(NamedTuple):
    """Where a processor listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a daemon is told."""

    cluster: str
    node: ProcessorId
    listen: Address
    peers: Mapping[ProcessorId, Address]  # without this node
    state: Path
    keys: tuple[Path, ...]  # the first seals, all are accepted; none on an insecure cluster
    parameters: Parameters
    name: str
    realtime: bool  # ask the kernel to run the daemon before ordinary work
    testing: bool  # orders that only tests give are obeyed
    record: Path | None  # where everything observable is written down, for the check

    def processors(self) -> int:
        """How many processors the cluster has, this one included."""
        return len(self.peers) + 1


def load(path: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """Read and check a settings file."""
    try:
        table = tomllib.loads(path.read_text())
    except OSError as error:
        raise BadSettings(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(f"{path}: not TOML: {error}") from None
    try:
        return parse(table, path.parent, environment)
    except BadSettings as error:
        raise BadSettings(f"{path}: {error}") from None


def parse(
    table: Mapping[str, object], base: Path, environment: Mapping[str, str] = os.environ
) -> Settings:
    """Check a table of settings; paths are relative to `base`."""
    reader = _Reader(table, environment)
    no_keys: list[str] = []
    no_changes: dict[str, int] = {}
    cluster = reader.take("cluster", _cluster)
    node = reader.take("node", _node)
    peers = reader.take("peers", _peers)
    listen = reader.take("listen", _address, peers.get(node))
    state = base / reader.take("state", _text)
    is_insecure = reader.take("insecure", _flag, False)
    keys = tuple(base / key for key in reader.take("keys", _texts, no_keys))
    profile = reader.take("profile", _profile, "lan")
    timeouts = reader.take("timeouts", _timeouts, no_changes)
    name = reader.take("name", _text, f"n{node}")
    is_realtime = reader.take("realtime", _flag, False)
    is_testing = reader.take("testing", _flag, False)
    record = reader.take("record", _text, "")
    reader.refuse_the_rest()
    if record and not is_testing:
        raise BadSettings("record: is for tests; it takes `testing = true` beside it")
    if is_insecure == bool(keys):
        raise BadSettings(
            "keys: name a key file (`evensong keys new` makes one), or ask for `insecure = true`"
        )
    others = {peer: address for peer, address in peers.items() if peer != node}
    parameters = PROFILES[profile]._replace(**timeouts, datagram_max=DATAGRAM_MAX - OVERHEAD)
    try:
        parameters.check(len(others) + 1)
    except BadParameters as error:
        raise BadSettings(f"timeouts: {error}") from None
    return Settings(
        cluster,
        node,
        listen,
        others,
        state,
        keys,
        parameters,
        name,
        is_realtime,
        is_testing,
        base / record if record else None,
    )


class _Reader:
    """Takes keys off a table, and knows which were not asked for."""

    def __init__(self, table: Mapping[str, object], environment: Mapping[str, str]) -> None:
        self._table = dict(table)
        self._environment = environment
        self._known: list[str] = []

    def take(
        self, key: str, read: Callable[[object], Value], default: Value | None = None
    ) -> Value:
        self._known.append(key)
        override = self._environment.get(PREFIX + key.upper())
        raw = self._table.pop(key, None)
        if override is not None:
            raw = _from_environment(override)
        if raw is None:
            if default is None:
                raise BadSettings(f"{key}: is missing")
            return default
        try:
            return read(raw)
        except ValueError as error:
            raise BadSettings(f"{key}: {error}; got {raw!r}") from None

    def refuse_the_rest(self) -> None:
        for key in self._table:
            raise BadSettings(f"{key}: no such key; there are {', '.join(self._known)}")


def _from_environment(text: str) -> object:
    """Read an override as TOML if it is, else as plain text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _text(raw: object) -> str:
    if not isinstance(raw, str) or not raw:
        raise ValueError("takes a text")
    return raw


def _texts(raw: object) -> list[str]:
    if isinstance(raw, str):
        return [raw]
    if not isinstance(raw, list):
        raise ValueError("takes a list of texts")
    return [_text(one) for one in raw]


def _flag(raw: object) -> bool:
    if not isinstance(raw, bool):
        raise ValueError("takes true or false")
    return raw


def _cluster(raw: object) -> str:
    if not isinstance(raw, str) or not CLUSTER.fullmatch(raw):
        raise ValueError("takes a name of up to 63 letters, digits and . _ -")
    return raw


def _node(raw: object) -> ProcessorId:
    if isinstance(raw, bool) or not isinstance(raw, int) or not 1 <= raw <= PROCESSOR_MAX:
        raise ValueError(f"takes a number from 1 to {PROCESSOR_MAX}")
    return raw


def _address(raw: object) -> Address:
    text = _text(raw)
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ValueError('takes "host:port", or "[host]:port" for IPv6')
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def _peers(raw: object) -> dict[ProcessorId, Address]:
    if not isinstance(raw, dict) or not raw:
        raise ValueError('takes a table of node = "host:port"')
    peers: dict[ProcessorId, Address] = {}
    for key, address in raw.items():
        if not str(key).isdecimal() or not 1 <= int(key) <= PROCESSOR_MAX:
            raise ValueError(f"a node is a number from 1 to {PROCESSOR_MAX}, not {key!r}")
        try:
            peers[int(key)] = _address(address)
        except ValueError as error:
            raise ValueError(f"node {key} {error}") from None
    if len(set(peers.values())) < len(peers):
        raise ValueError("two nodes share an address")
    if len(peers) > PROCESSORS_MAX:
        raise ValueError(f"at most {PROCESSORS_MAX} nodes")
    return peers


def _profile(raw: object) -> str:
    if raw not in PROFILES:
        raise ValueError(f"takes one of {', '.join(PROFILES)}")
    return str(raw)


def _timeouts(raw: object) -> dict[str, int]:
    if not isinstance(raw, dict):
        raise ValueError('takes a table such as { token_loss = "300ms" }')
    for key in raw:
        if key not in TIMEOUTS:
            raise ValueError(f"{key} is none of {', '.join(TIMEOUTS)}")
    durations: dict[str, int] = {}
    for key, value in raw.items():
        try:
            durations[key] = duration_us(value)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
    return durations


def duration_us(raw: object) -> int:
    """Read a duration such as "300ms" as microseconds."""
    matched = DURATION.fullmatch(raw) if isinstance(raw, str) else None
    if matched is None:
        raise ValueError('a duration is written "300ms", "2s" or "500us"')
    return int(matched[1]) * UNIT_US[matched[2]]

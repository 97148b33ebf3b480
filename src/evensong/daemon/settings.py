"""One TOML file, one frozen `Settings`: every limit and timeout a person may choose.

Whatever is wrong is refused with a message that names the key and what is allowed. An environment
variable `EVENSONG_<KEY>` overrides a key of the file; one that overrides nothing is pointed out and
not refused, because others make such names too: Kubernetes does for a service called evensong.
"""

import ipaddress
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from evensong.core.engine import ENGINES, TOTEM, TRANSIS, Parameters, name_of, wrapping
from evensong.core.engine import profile as profile_of
from evensong.core.groups.limits import LENGTH_MAX, MESSAGE_MAX, Limits
from evensong.core.ids import PROCESSOR_MAX, PROCESSORS_MAX, ProcessorId
from evensong.core.totem.parameters import PROFILES
from evensong.core.totem.parameters import Parameters as RingParameters
from evensong.core.transis.parameters import TIMES as LANSIS_TIMES
from evensong.core.transis.parameters import Parameters as LansisParameters
from evensong.daemon.seal import OVERHEAD
from evensong.daemon.small import NoSmallFile, read_small
from evensong.daemon.tuning import SCALED, Measured, tuned
from evensong.errors import BadParameters, BadSettings
from evensong.trace.spool import LEVELS

Value = TypeVar("Value")

DURATION: Final = re.compile(r"(\d+)(us|ms|s)")
UNIT_US: Final = {"us": 1, "ms": 1_000, "s": 1_000_000}
CLUSTER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
SIZE: Final = re.compile(r"(\d+)(KiB|MiB|GiB|TiB)")
SIZES: Final = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
MODE: Final = re.compile(r"0?[0-7]{3}")
FILE_MAX: Final = 1 << 20  # bytes of a settings file
PREFIX: Final = "EVENSONG_"
AUTO: Final = "auto"  # the profile whose timeouts follow from what was measured
UNTUNED: Final = "lan"  # what `auto` is as long as nothing was
GSO: Final = ("auto", "off")
TIMEOUTS: Final = {TOTEM: SCALED, TRANSIS: LANSIS_TIMES}
# What fits a path of 9000 bytes, behind the larger of the two IP headers (40) and that of UDP (8);
DATAGRAM_MAX: Final = 8_952
PACKET: Final = 1_452  # and one of 1500, which is what people have.
PORT_MAX: Final = 65_535
PACKET_LEAST: Final = 548  # what every IPv4 path carries, behind its headers
QUEUED_VISITS: Final = 4  # visits' worth of packets that clients may have queued before they slow
QUEUED_LEAST: Final = 200  # packets, however few a visit may send
UNDER_WAY: Final = 262_144  # bytes that a client may send before it knows that it should not
CLIENT_QUEUE: Final = 64 * 2**20
QUEUED_MESSAGES: Final = 4
CLIENT_MODE: Final = 0o600
GROUP_MODE: Final = 0o660  # if a group of clients is named


class Address(NamedTuple):
    """Where a processor listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


_NOWHERE: Final = Address("", 0)
_UNMEASURED: Final = Measured(0, 0)


class Multicast(NamedTuple):
    """Where broadcasts go instead of to each peer."""

    group: Address
    interface: str  # a name or an address; empty: the system chooses
    ttl: int  # how many routers may pass it on


@dataclass(frozen=True, slots=True)
class Settings:
    """What a daemon is told."""

    cluster: str
    node: ProcessorId
    listen: Address
    advertise: Address  # where the others reach it
    peers: Mapping[ProcessorId, Address]  # without this node
    multicast: Multicast | None
    gso: str  # "auto" or "off"
    packet: int  # bytes of the largest datagram
    state: Path
    keys: tuple[Path, ...]  # the first seals, all are accepted; none on an insecure cluster
    parameters: Parameters  # of the engine that the cluster runs
    profile: str
    name: str
    realtime: bool  # ask the kernel to run the daemon before ordinary work
    busy: bool  # look for what comes without sleeping, while the token of an idle ring is here
    testing: bool  # orders that only tests give are obeyed
    trace: str  # how closely this daemon records what it does, one of LEVELS
    trace_dir: Path
    trace_keep: int  # bytes
    electorate: tuple[ProcessorId, ...]  # empty: this node and its peers, as they were at the start
    message_max: int  # bytes of a client's message
    client_queue: int  # bytes that may wait for one client; never less than four messages
    client_mode: int  # of the clients' socket
    client_group: str  # whose members may be clients; empty: nobody but this user and root
    idle_variables: tuple[str, ...]  # `EVENSONG_…` that override nothing

    def processors(self) -> int:
        """How many processors the cluster has, this one included."""
        return len(self.peers) + 1

    @property
    def engine(self) -> str:
        """What orders messages in the cluster, one of ENGINES."""
        return name_of(self.parameters)

    def wrapping(self) -> int:
        """How many bytes of a datagram are for the seal and for the engine."""
        return OVERHEAD + wrapping(self.parameters, self.processors())

    def voters(self) -> tuple[ProcessorId, ...]:
        """Return those of whom a primary configuration has a majority."""
        return self.electorate or tuple(sorted([self.node, *self.peers]))

    def limits(self) -> Limits:
        """Return the bounds of process groups."""
        payload_max = self.packet - self.wrapping()
        packets = max(QUEUED_VISITS * self.parameters.messages_at_once(), QUEUED_LEAST)
        queue_bytes_max = packets * payload_max
        # Whoever stops when it is told to, behind a message that is on its way, is never refused.
        session_bytes_max = 2 * (self.message_max + queue_bytes_max) + UNDER_WAY
        return Limits(payload_max, self.message_max, session_bytes_max, queue_bytes_max)


def load(path: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """Read and check a settings file."""
    try:
        _, content = read_small(path, FILE_MAX)
        table = tomllib.loads(content.decode())
    except OSError as error:
        raise BadSettings(f"{path}: {error.strerror}") from None
    except NoSmallFile:
        raise BadSettings(f"{path}: is no file of at most {FILE_MAX} bytes") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(f"{path}: not TOML: {error}") from None
    except RecursionError:
        raise BadSettings(f"{path}: nested too deeply") from None
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
    nobody: tuple[ProcessorId, ...] = ()
    cluster = reader.take("cluster", _cluster)
    node = reader.take("node", _node)
    peers = reader.take("peers", _peers)
    listen = reader.take("listen", _address, peers.get(node, _NOWHERE))
    if listen == _NOWHERE:
        known = ", ".join(map(str, sorted(peers)))
        raise BadSettings(f"node {node} is not in peers ({known}); add it there, or give listen")
    advertise = reader.take("advertise", _address, peers.get(node, listen))
    multicast = _multicast(reader)
    gso = reader.take("gso", _gso, "auto")
    packet = reader.take("packet", _packet, PACKET)
    state = base / reader.take("state", _text)
    is_insecure = reader.take("insecure", _flag, False)
    keys = tuple(base / key for key in reader.take("keys", _texts, no_keys))
    profile, timed = _timed(reader, len({node, *peers}))
    name = reader.take("name", _text, f"n{node}")
    is_realtime = reader.take("realtime", _flag, False)
    is_busy = reader.take("busy", _flag, False)
    if is_busy and isinstance(timed, LansisParameters):
        raise BadSettings(f"busy: is for a token that rests, which {TRANSIS} has not")
    is_testing = reader.take("testing", _flag, False)
    trace = reader.take("trace", _level, "views")
    trace_dir = reader.take("trace_dir", _text, "")
    trace_keep = reader.take("trace_keep", size_bytes, 10 * SIZES["GiB"])
    electorate = reader.take("electorate", _electorate, nobody)
    message_max = reader.take("message_max", _message_max, MESSAGE_MAX)
    client_queue = reader.take("client_queue", size_bytes, CLIENT_QUEUE)
    client_group = reader.take("client_group", _text, "")
    client_mode = reader.take("client_mode", _mode, GROUP_MODE if client_group else CLIENT_MODE)
    reader.refuse_the_rest()
    if is_insecure and keys:
        raise BadSettings("keys: are there beside `insecure = true`; not both, drop one")
    if not is_insecure and not keys:
        raise BadSettings(
            "keys: name a key file (`evensong keys new` makes one), or ask for `insecure = true`"
        )
    if advertise != peers.get(node, advertise):
        raise BadSettings(f"advertise: is {advertise}, but peers has {peers[node]} for this node")
    others = {peer: address for peer, address in peers.items() if peer != node}
    parameters = _sized(timed, packet)
    check_parameters(parameters, len(others) + 1)
    return Settings(
        cluster,
        node,
        listen,
        advertise,
        others,
        multicast,
        gso,
        packet,
        state,
        keys,
        parameters,
        profile,
        name,
        is_realtime,
        is_busy,
        is_testing,
        trace,
        base / trace_dir if trace_dir else state / "trace",
        trace_keep,
        electorate,
        message_max,
        max(client_queue, QUEUED_MESSAGES * message_max),
        client_mode,
        client_group,
        reader.idle_variables(),
    )


def _sized(timed: Parameters, packet: int) -> Parameters:
    """Return what suits packets of this size: larger ones are fewer, so that buffers hold them."""
    fewer = max(packet, PACKET)
    if isinstance(timed, LansisParameters):
        return timed._replace(w_high=max(2 * timed.w_low, timed.w_high * PACKET // fewer))
    return timed._replace(
        datagram_max=packet - OVERHEAD,
        window_size=-(-timed.window_size * PACKET // fewer),
        messages_max=-(-timed.messages_max * PACKET // fewer),
    )


def effective(settings: Settings) -> dict[str, object]:
    """Return the settings as one would write them, defaults and overrides included."""
    parameters, multicast = settings.parameters, settings.multicast
    told: dict[str, object] = {
        "cluster": settings.cluster,
        "node": settings.node,
        "name": settings.name,
        "state": str(settings.state),
        "listen": str(settings.listen),
        "advertise": str(settings.advertise),
        "peers": {str(peer): str(at) for peer, at in sorted(settings.peers.items())},
        "keys": [str(key) for key in settings.keys],
        "insecure": not settings.keys,
        "packet": settings.packet,
        "gso": settings.gso,
        "engine": settings.engine,
        "profile": settings.profile,
        "timeouts": {key: written(getattr(parameters, key)) for key in TIMEOUTS[settings.engine]},
        "trace": settings.trace,
        "trace_dir": str(settings.trace_dir),
        "trace_keep": written_size(settings.trace_keep),
        "electorate": list(settings.voters()),
        "message_max": written_size(settings.message_max),
        "client_queue": written_size(settings.client_queue),
        "client_mode": f"{settings.client_mode:04o}",
        "realtime": settings.realtime,
        "busy": settings.busy,
        "testing": settings.testing,
    }
    if isinstance(parameters, LansisParameters):
        told["allack"] = bool(parameters.allack)
    if settings.client_group:
        told["client_group"] = settings.client_group
    if multicast:
        told["multicast"] = str(multicast.group)
        told["multicast_interface"] = multicast.interface
        told["multicast_ttl"] = multicast.ttl
    return told


def written(duration: int) -> str:
    """Write a duration of microseconds as `duration_us` reads it."""
    return f"{duration // 1_000}ms" if duration % 1_000 == 0 else f"{duration}us"


def written_size(size: int) -> str:
    """Write a size as `size_bytes` reads it, in the largest unit that tells all of it."""
    unit = next(unit for unit in reversed(SIZES) if size % SIZES[unit] == 0)
    return f"{size // SIZES[unit]}{unit}"


def check_parameters(parameters: Parameters, processors: int) -> None:
    """Refuse timeouts that cannot work in a cluster of so many."""
    try:
        parameters.check(processors)
    except BadParameters as error:
        raise BadSettings(f"timeouts: {error}") from None


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
            raw = _from_environment(key, override)
        if raw is None:
            if default is None:
                raise BadSettings(f"{key}: is missing")
            return default
        try:
            return read(raw)
        except ValueError as error:
            if override is not None and raw != override:
                with suppress(ValueError):
                    return read(override)  # a text that happens to look like something else
            where = key if override is None else f"{key} by {PREFIX}{key.upper()}"
            raise BadSettings(f"{where}: {error}; got {raw!r}") from None

    def refuse_the_rest(self) -> None:
        for key in self._table:
            raise BadSettings(f"{key}: no such key; there are {', '.join(self._known)}")

    def idle_variables(self) -> tuple[str, ...]:
        """Return the variables that look like overrides, and are not."""
        known = {PREFIX + key.upper() for key in self._known}
        return tuple(
            name
            for name in sorted(self._environment)
            if name.startswith(PREFIX) and name not in known
        )


def _multicast(reader: _Reader) -> Multicast | None:
    group = reader.take("multicast", _group, _NOWHERE)
    interface = reader.take("multicast_interface", _text, "")
    ttl = reader.take("multicast_ttl", _ttl, 0)
    if group != _NOWHERE:
        return Multicast(group, interface, ttl or 1)
    for key, given in (("multicast_interface", interface), ("multicast_ttl", ttl)):
        if given:
            raise BadSettings(f"{key}: takes `multicast` beside it")
    return None


def _timed(reader: _Reader, processors: int) -> tuple[str, Parameters]:
    """Return the profile's name, and its parameters with the changes that were asked for."""
    no_changes: dict[str, int] = {}
    engine = reader.take("engine", _engine, TOTEM)
    profile = reader.take("profile", _profile, UNTUNED)
    measured = reader.take("measured", _measured, _UNMEASURED)
    is_ring = engine == TOTEM
    timeouts = reader.take("timeouts", _timeouts if is_ring else _lansis_timeouts, no_changes)
    is_allack = reader.take("allack", _flag, False)
    if is_allack and is_ring:
        raise BadSettings(f'allack: takes `engine = "{TRANSIS}"` beside it')
    if profile == AUTO and not is_ring:
        raise BadSettings(f"profile: {AUTO} is from rotations of a token, which {engine} has not")
    if profile != AUTO and measured != _UNMEASURED:
        raise BadSettings('measured: takes `profile = "auto"` beside it')
    parameters = profile_of(engine, profile if profile != AUTO else UNTUNED, processors)
    if measured != _UNMEASURED:
        parameters = tuned(measured)
    if isinstance(parameters, RingParameters):
        return profile, parameters._replace(**timeouts)
    return profile, parameters._replace(allack=int(is_allack), **timeouts)


def _from_environment(key: str, text: str) -> object:
    """Read an override as TOML if it is, else as plain text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    except RecursionError:
        raise BadSettings(f"{key}: {PREFIX}{key.upper()} is nested too deeply") from None


def _text(raw: object) -> str:
    if not isinstance(raw, str) or not raw:
        raise ValueError("takes a text")
    if not raw.isprintable():  # nor could such a name be sent, or such a file be named
        raise ValueError("takes a text of printable letters")
    return raw


def _texts(raw: object) -> list[str]:
    if isinstance(raw, str):
        return [_text(raw)]
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


def _electorate(raw: object) -> tuple[ProcessorId, ...]:
    if not isinstance(raw, list) or not 0 < len(raw) <= PROCESSORS_MAX:
        raise ValueError(f"takes a list of 1 to {PROCESSORS_MAX} nodes")
    voters = tuple(sorted({_node(one) for one in raw}))
    if len(voters) < len(raw):
        raise ValueError("names a node twice")
    return voters


def _message_max(raw: object) -> int:
    size = size_bytes(raw)
    if not 0 < size <= LENGTH_MAX:
        raise ValueError(f"takes 1KiB to {written_size(LENGTH_MAX)}")
    return size


def _mode(raw: object) -> int:
    if not isinstance(raw, str) or not MODE.fullmatch(raw):
        raise ValueError('takes an octal mode such as "0600" or "0660"')
    return int(raw, 8)


def _node(raw: object) -> ProcessorId:
    return _number(raw, 1, PROCESSOR_MAX)


def _address(raw: object) -> Address:
    text = _text(raw)
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal():
        raise ValueError('takes "host:port", or "[host]:port" for IPv6')
    if not 1 <= int(port) <= PORT_MAX:
        raise ValueError(f"takes a port from 1 to {PORT_MAX}")
    host = host.removeprefix("[").removesuffix("]")
    try:
        host.encode("idna")  # as looking it up does
    except UnicodeError:
        raise ValueError("takes a host whose name has 1 to 63 letters between dots") from None
    return Address(host, int(port))


def _peers(raw: object) -> dict[ProcessorId, Address]:
    if not isinstance(raw, dict) or not raw:
        raise ValueError('takes a table of node = "host:port"')
    peers: dict[ProcessorId, Address] = {}
    for key, address in raw.items():
        if not str(key).isdecimal() or not 1 <= int(key) <= PROCESSOR_MAX:
            raise ValueError(f"a node is a number from 1 to {PROCESSOR_MAX}, not {key!r}")
        if int(key) in peers:
            raise ValueError(f"node {int(key)} is there twice")
        try:
            peers[int(key)] = _address(address)
        except ValueError as error:
            raise ValueError(f"node {key} {error}") from None
    if len(set(peers.values())) < len(peers):
        raise ValueError("two nodes share an address")
    if len(peers) > PROCESSORS_MAX:
        raise ValueError(f"at most {PROCESSORS_MAX} nodes")
    return peers


def _group(raw: object) -> Address:
    try:
        address = _address(raw)
        is_group = ipaddress.ip_address(address.host).is_multicast
    except ValueError:
        is_group = False
    if not is_group:
        raise ValueError('takes "239.x.y.z:port", or "[ff15::x]:port" for IPv6')
    return address


def _ttl(raw: object) -> int:
    return _number(raw, 1, 255)


def _packet(raw: object) -> int:
    return _number(raw, PACKET_LEAST, DATAGRAM_MAX)


def _number(raw: object, least: int, most: int) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int) or not least <= raw <= most:
        raise ValueError(f"takes a number from {least} to {most}")
    return raw


def _gso(raw: object) -> str:
    if raw not in GSO:
        raise ValueError(f"takes one of {', '.join(GSO)}")
    return str(raw)


def _engine(raw: object) -> str:
    if raw not in ENGINES:
        raise ValueError(f"takes one of {', '.join(ENGINES)}")
    return str(raw)


def _profile(raw: object) -> str:
    allowed = (*PROFILES, AUTO)
    if raw not in allowed:
        raise ValueError(f"takes one of {', '.join(allowed)}")
    return str(raw)


def _measured(raw: object) -> Measured:
    durations = _durations(raw, Measured._fields, 'such as { rotation = "2ms", lag = "9ms" }')
    if len(durations) < len(Measured._fields):
        raise ValueError(f"takes both {' and '.join(Measured._fields)}")
    return Measured(**durations)


def _timeouts(raw: object) -> dict[str, int]:
    return _durations(raw, SCALED, 'such as { token_loss = "300ms" }')


def _lansis_timeouts(raw: object) -> dict[str, int]:
    return _durations(raw, LANSIS_TIMES, 'such as { heartbeat = "100ms" }')


def _durations(raw: object, allowed: tuple[str, ...], example: str) -> dict[str, int]:
    if not isinstance(raw, dict):
        raise ValueError(f"takes a table {example}")
    for key in raw:
        if key not in allowed:
            raise ValueError(f"{key} is none of {', '.join(allowed)}")
    durations: dict[str, int] = {}
    for key, value in raw.items():
        try:
            durations[key] = duration_us(value)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
    return durations


def _level(raw: object) -> str:
    if raw not in LEVELS:
        raise ValueError(f"takes one of {', '.join(LEVELS)}")
    return str(raw)


def size_bytes(raw: object) -> int:
    """Read a size such as "10GiB" as bytes."""
    matched = SIZE.fullmatch(raw) if isinstance(raw, str) else None
    if matched is None:
        raise ValueError('a size is written "64KiB", "500MiB", "10GiB" or "1TiB"')
    return int(matched[1]) * SIZES[matched[2]]


def duration_us(raw: object) -> int:
    """Read a duration such as "300ms" as microseconds."""
    matched = DURATION.fullmatch(raw) if isinstance(raw, str) else None
    if matched is None:
        raise ValueError('a duration is written "300ms", "2s" or "500us"')
    return int(matched[1]) * UNIT_US[matched[2]]

"""One UDP socket: what one processor says is sent to every peer by unicast; what comes is drained.

Nothing here raises once the socket is bound: a datagram that cannot be sent is as good as lost, and
is counted by its reason. IP never fragments for us, since a lost fragment loses the whole datagram.
"""

import errno
import os
import socket
import threading
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, final

from evensong.core.ids import ProcessorId
from evensong.daemon.settings import DATAGRAM_MAX, Address
from evensong.errors import CannotStart

SocketAddress: TypeAlias = tuple[str, int] | tuple[str, int, int, int]

# The kernel grants what it may (`net.core.rmem_max`); a window of datagrams must fit.
BUFFER_BYTES: Final = 4 * 1024 * 1024
# Linux's numbers, which the socket module does not name before Python 3.14.
IP_MTU_DISCOVER: Final = 10
IPV6_MTU_DISCOVER: Final = 23
PMTUDISC_DO: Final = 2  # set "don't fragment", and refuse what is larger than the path


@final
class Datagrams:
    """The socket, and where the peers are."""

    __slots__ = (
        "_addresses",
        "_everybody",
        "_ignored",
        "_is_resolving",
        "_is_wanted",
        "_lock",
        "_peers",
        "_socket",
        "family",
        "send_errors",
        "sent",
    )

    def __init__(self, listen: Address, peers: Mapping[ProcessorId, Address]) -> None:
        self._peers = dict(peers)
        self._addresses: dict[ProcessorId, SocketAddress] = {}
        self._everybody: tuple[SocketAddress, ...] = ()
        self._ignored: frozenset[ProcessorId] = frozenset()
        self._lock: Final = threading.Lock()  # for where the peers are; never held for long
        self._is_resolving = False
        self._is_wanted = False  # another look at the names, after the present one
        self.sent = 0  # datagrams, each peer's copy counted
        self.send_errors: Final[dict[str, int]] = {}  # by reason
        self._socket: Final = _bound(listen)
        self.family: Final = self._socket.family
        self._look_up(self._peers)

    def fileno(self) -> int:
        """Return what to wait on."""
        return self._socket.fileno()

    def close(self) -> None:
        """Let the port go."""
        self._socket.close()

    # Sending

    def broadcast(self, datagram: bytes) -> None:
        """Send to every peer, the same bytes to each."""
        if len(datagram) > DATAGRAM_MAX:
            self._count("oversized")
            return
        for address in self._everybody:
            self._send(datagram, address)

    def unicast(self, to: ProcessorId, datagram: bytes) -> None:
        """Send to one peer."""
        address = self._addresses.get(to)
        if len(datagram) > DATAGRAM_MAX:
            self._count("oversized")
        elif address is None:
            self._count("no address")
        elif to not in self._ignored:
            self._send(datagram, address)

    def _send(self, datagram: bytes, address: SocketAddress) -> None:
        try:
            self._socket.sendto(datagram, address)
        except OSError as error:
            self._count(errno.errorcode.get(error.errno or 0, "unknown"))
        else:
            self.sent += 1

    def _count(self, reason: str) -> None:
        self.send_errors[reason] = self.send_errors.get(reason, 0) + 1

    # Receiving

    def drain(self, datagrams_max: int) -> list[bytes]:
        """Return what has arrived, at most so many; a longer one is cut just behind the limit."""
        drained: list[bytes] = []
        receive = self._socket.recv
        while len(drained) < datagrams_max:
            try:
                drained.append(receive(DATAGRAM_MAX + 1))
            except BlockingIOError:
                break
            except OSError as error:  # an old send's complaint; nothing was received
                self._count(errno.errorcode.get(error.errno or 0, "unknown"))
        return drained

    # Where the peers are

    def ignore(self, peers: Iterable[ProcessorId]) -> None:
        """Send nothing to these from now on."""
        with self._lock:
            self._ignored = frozenset(peers)
            self._gather_everybody()

    def address_of(self, peer: ProcessorId) -> str:
        """Return where a peer is sent to, for people; empty if its name is not resolved."""
        address = self._addresses.get(peer)
        return str(Address(*address[:2])) if address else ""

    def set_peers(self, peers: Mapping[ProcessorId, Address]) -> None:
        """Send to these from now on; names among them are looked up beside the ring."""
        with self._lock:
            kept = {
                peer: at
                for peer, at in self._addresses.items()
                if peers.get(peer) == self._peers[peer]
            }
            self._peers = dict(peers)
            self._addresses = kept
            self._gather_everybody()
        self._look_up({peer: at for peer, at in peers.items() if _is_literal(at.host)})
        self.resolve_again()

    def resolve_again(self) -> None:
        """Look the peers' names up once more, beside the ring: a resolver may take seconds."""
        with self._lock:
            self._is_wanted = any(not _is_literal(at.host) for at in self._peers.values())
            if not self._is_wanted or self._is_resolving:
                return
            self._is_resolving = True
        threading.Thread(target=self._resolve_names, daemon=True).start()

    def _resolve_names(self) -> None:
        while True:
            with self._lock:
                if not self._is_wanted:
                    self._is_resolving = False
                    return
                self._is_wanted = False
                names = {peer: at for peer, at in self._peers.items() if not _is_literal(at.host)}
            self._look_up(names)

    def _look_up(self, peers: Mapping[ProcessorId, Address]) -> None:
        found: dict[ProcessorId, SocketAddress] = {}
        for peer, address in peers.items():
            resolved = _resolve(address, self.family)
            if resolved is not None:  # else the old address may still be right
                found[peer] = resolved
        with self._lock:
            current = {
                peer: at for peer, at in found.items() if self._peers.get(peer) == peers[peer]
            }
            self._addresses = {**self._addresses, **current}
            self._gather_everybody()  # one assignment: the ring's thread sees old or new

    def _gather_everybody(self) -> None:
        ignored = self._ignored
        self._everybody = tuple(
            address for peer, address in self._addresses.items() if peer not in ignored
        )


def _bound(listen: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    if not _is_literal(listen.host):
        try:
            family = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_DGRAM)[0][0]
        except OSError as error:
            raise CannotStart(f"listen: {listen.host} is not known: {error.strerror}") from None
    bound = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            bound.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
        bound.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, PMTUDISC_DO)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, PMTUDISC_DO)
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_DONTFRAG, 1)
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind((listen.host, listen.port))
    except OSError as error:
        bound.close()
        raise CannotStart(f"listen: {listen}: {_why(error)}") from None
    return bound


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use, perhaps by another daemon"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine does not have that address"
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)


def _is_literal(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host.partition("%")[0])
        except OSError:
            continue
        return True
    return False


def _resolve(address: Address, family: int) -> SocketAddress | None:
    flags = socket.AI_V4MAPPED if family == socket.AF_INET6 else 0
    try:
        found = socket.getaddrinfo(
            address.host, address.port, family=family, type=socket.SOCK_DGRAM, flags=flags
        )
    except (OSError, UnicodeError):
        return None
    where = found[0][4]
    host, port = str(where[0]), int(where[1])
    if len(where) == 4:
        return (host, port, int(where[2]), int(where[3]))
    return (host, port)

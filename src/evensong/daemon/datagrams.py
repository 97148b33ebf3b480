"""UDP: what one processor says goes to every peer, or to a multicast group; what comes is drained.

Nothing here raises once the socket is bound: a datagram that cannot be sent is as good as lost, and
is counted by its reason. IP never fragments for us, since a lost fragment loses the whole datagram.
"""

import errno
import socket
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final, final

from evensong.core.ids import ProcessorId
from evensong.daemon.burst import BURST_MAX, Burst
from evensong.daemon.seal import NAME_OF, pieces_of, unpack_counter
from evensong.daemon.settings import DATAGRAM_MAX, Address, Multicast
from evensong.daemon.sockets import (
    SOL_UDP,
    SocketAddress,
    bound_to,
    can,
    is_literal,
    member_of,
    resolve,
)
from evensong.errors import CannotStart

UDP_SEGMENT: Final = 103  # one call sends many datagrams of one length; the last may be shorter
UDP_GRO: Final = 104  # one call receives many datagrams of one length
MERGED_MAX: Final = 65_536
SHORT: Final = 512  # bytes: a token, or a message of a ring that is not busy
SEGMENT: Final = struct.Struct("=H")
SIZE: Final = struct.Struct("=i")
ANCILLARY_MAX: Final = socket.CMSG_SPACE(SIZE.size)
NO_SEGMENTS: Final = frozenset([errno.EIO, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOPROTOOPT])


@final
class Datagrams:
    """The socket, and where the peers are."""

    __slots__ = (
        "_addresses",
        "_everybody",
        "_group",
        "_heard",
        "_ignored",
        "_is_calm",
        "_is_resolving",
        "_is_wanted",
        "_lock",
        "_peers",
        "_socket",
        "family",
        "is_merging",
        "is_segmenting",
        "send_errors",
        "sent",
    )

    def __init__(
        self,
        listen: Address,
        peers: Mapping[ProcessorId, Address],
        *,
        multicast: Multicast | None = None,
        in_bursts: bool = True,
    ) -> None:
        self._peers = dict(peers)
        self._addresses: dict[ProcessorId, SocketAddress] = {}
        self._everybody: tuple[SocketAddress, ...] = ()
        self._ignored: frozenset[ProcessorId] = frozenset()
        self._lock: Final = threading.Lock()  # for where the peers are; never held for long
        self._is_calm = False  # what came last was waited for, short and alone
        self._is_resolving = False
        self._is_wanted = False  # another look at the names, after the present one
        self.sent = 0  # datagrams, each peer's copy counted
        self.send_errors: Final[dict[str, int]] = {}  # by reason
        self._socket: Final = bound_to(listen)
        self.family: Final = self._socket.family
        self._heard: Final = [self._socket]
        self._group: tuple[SocketAddress, ...] = ()
        if multicast is not None:
            self._heard.append(self._joined(multicast))
            self._group = (multicast.group,)
        self.is_segmenting = in_bursts and can(self._socket, UDP_SEGMENT, 0)
        able = [can(one, UDP_GRO, 1) for one in self._heard] if in_bursts else [False]
        self.is_merging: Final = all(able)
        self._look_up(self._peers)

    def _joined(self, multicast: Multicast) -> socket.socket:
        try:
            return member_of(multicast, self._socket)
        except CannotStart:
            self._socket.close()
            raise

    def is_echoing(self) -> bool:
        """Whether what is broadcast comes back: a group does not leave its speaker out."""
        return bool(self._group)

    def burst_max(self) -> int:
        """How many datagrams one call can send."""
        return BURST_MAX if self.is_segmenting else 1

    def filenos(self) -> list[int]:
        """Return what to wait on; whichever is ready, `drain` has what came."""
        return [one.fileno() for one in self._heard]

    def close(self) -> None:
        """Let the port go."""
        for one in self._heard:
            one.close()

    # Sending

    def broadcast(self, burst: Burst) -> None:
        """Send to every peer, the same bytes to each."""
        if burst.size > DATAGRAM_MAX:
            self._count("oversized", len(burst.split()))
            return
        for address in self._everybody:
            self._send(burst, address)

    def unicast(self, to: ProcessorId, datagram: bytes) -> None:
        """Send to one peer."""
        address = self._addresses.get(to)
        if len(datagram) > DATAGRAM_MAX:
            self._count("oversized")
        elif address is None:
            self._count("no address")
        elif to not in self._ignored:
            self._send(Burst(datagram, len(datagram)), address)

    def _send(self, burst: Burst, address: SocketAddress) -> None:
        data, size = burst
        try:
            if size >= len(data):
                self._socket.sendto(data, address)
                self.sent += 1
            elif not self.is_segmenting:
                for datagram in burst.split():
                    self._send(Burst(datagram, len(datagram)), address)
            else:
                segment = [(SOL_UDP, UDP_SEGMENT, SEGMENT.pack(size))]
                self._socket.sendmsg([data], segment, 0, address)
                self.sent += -(-len(data) // size)
        except OSError as error:
            if size >= len(data):
                self._count(errno.errorcode.get(error.errno or 0, "unknown"))
            else:
                self._send_apart(burst, address, error)

    def _send_apart(self, burst: Burst, address: SocketAddress, error: OSError) -> None:
        """Send one by one what was refused as a burst.

        If it can be sent so, it was the burst that the kernel does not take, and none is tried any
        more; else it is this path, which is too narrow or gone.
        """
        before = self.sent
        datagrams = burst.split()
        for datagram in datagrams:
            self._send(Burst(datagram, len(datagram)), address)
        if error.errno in NO_SEGMENTS and self.sent - before == len(datagrams):
            self.is_segmenting = False

    def _count(self, reason: str, datagrams: int = 1) -> None:
        self.send_errors[reason] = self.send_errors.get(reason, 0) + datagrams

    # Receiving

    def drain(self, datagrams_max: int, *, has_waited: bool = False) -> Iterator[Burst]:
        """Yield what has arrived, until nothing is left or so many datagrams have been there.

        A burst is what the kernel handed over at once, or else what came in a row from one life of
        a peer; its datagrams are equally long, but for the last. A few more than asked for may
        come. Each is received when it is asked for, so it is looked at while it is at hand.

        If the caller `has_waited`, nothing was there before. On a ring that does next to nothing
        what comes then comes alone, and the rest is left for the next call, if there is any: to
        look for it takes a tenth of the time that the token spends here. What a group hears is not
        left: it may be data, and the token that has overtaken it came to the other socket.
        """
        was_calm, self._is_calm = self._is_calm, has_waited
        for one in self._heard:
            if self.is_merging:
                is_calm = was_calm and has_waited and one is self._socket
                yield from self._drain_merged(one, datagrams_max, is_calm)
            else:
                yield from self._drain(one, datagrams_max)

    def _drain(self, heard: socket.socket, datagrams_max: int) -> Iterator[Burst]:
        receive = heard.recv
        received: list[bytes] = []
        while len(received) < datagrams_max:
            try:
                received.append(receive(DATAGRAM_MAX + 1))
            except BlockingIOError:
                break
            except OSError as error:  # an old send's complaint; nothing was received
                self._count(errno.errorcode.get(error.errno or 0, "unknown"))
        for _, row in groupby(received, _kin):
            datagrams = [*row]
            size = len(datagrams[0])
            others = {*map(len, datagrams[:-1])}
            if size and others <= {size} and len(datagrams[-1]) <= size:
                yield Burst(b"".join(datagrams), size)
            else:  # an empty one is one, though end to end they are none
                yield from [Burst(one, len(one)) for one in datagrams]

    def _drain_merged(
        self, heard: socket.socket, datagrams_max: int, is_calm: bool
    ) -> Iterator[Burst]:
        receive = heard.recvmsg
        left = datagrams_max
        while left > 0:
            try:
                merged, ancillary, _, _ = receive(MERGED_MAX, ANCILLARY_MAX)
            except BlockingIOError:
                break
            except OSError as error:
                self._count(errno.errorcode.get(error.errno or 0, "unknown"))
                continue
            length = len(merged)
            size = SIZE.unpack(ancillary[0][2])[0] if ancillary else length
            is_lone = length <= SHORT and size >= length and left == datagrams_max
            if not is_lone:
                self._is_calm = False
            if size >= length:
                yield Burst(merged, length)
                left -= 1
                if is_lone and is_calm:
                    return
                continue
            left -= length // size
            shorter = length % size  # the last one, which may be
            if shorter and pieces_of(merged) == 1:
                yield Burst(merged[:-shorter], size)
                yield Burst(merged[-shorter:], shorter)
            else:
                yield Burst(merged, size)

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
        self._look_up({peer: at for peer, at in peers.items() if is_literal(at.host)})
        self.resolve_again()

    def look_for_lost(self, _now: int) -> None:
        """Look names up again as long as one of them leads nowhere."""
        if len(self._addresses) < len(self._peers):
            self.resolve_again()

    def resolve_again(self) -> None:
        """Look the peers' names up once more, beside the ring: a resolver may take seconds."""
        with self._lock:
            self._is_wanted = any(not is_literal(at.host) for at in self._peers.values())
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
                names = {peer: at for peer, at in self._peers.items() if not is_literal(at.host)}
            self._look_up(names)

    def _look_up(self, peers: Mapping[ProcessorId, Address]) -> None:
        found: dict[ProcessorId, SocketAddress] = {}
        for peer, address in peers.items():
            resolved = resolve(address, self.family)
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
        self._everybody = self._group or tuple(
            address for peer, address in self._addresses.items() if peer not in ignored
        )


def _kin(datagram: bytes) -> tuple[int, bytes]:
    """Return what is the same in datagrams that go together.

    They are pieces of one frame, or else of one life and one length.
    """
    name = NAME_OF(datagram)
    if pieces_of(datagram) == 1:
        return -len(datagram), name
    counter, _, piece, _ = unpack_counter(datagram, len(name))
    return counter - piece, name

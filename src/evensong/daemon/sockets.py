"""How UDP sockets are opened, and where names lead: what each of the two IPs wants."""

import errno
import ipaddress
import os
import socket
import struct
from typing import Final, TypeAlias

from evensong.daemon.settings import Address, Multicast
from evensong.errors import CannotStart

SocketAddress: TypeAlias = tuple[str, int] | tuple[str, int, int, int]

# The kernel grants what it may (`net.core.rmem_max`); a window of datagrams must fit.
BUFFER_BYTES: Final = 4 * 1024 * 1024
# Linux's numbers, which the socket module does not name before Python 3.14.
IP_MTU_DISCOVER: Final = 10
IPV6_MTU_DISCOVER: Final = 23
# Set "don't fragment" and believe no ICMP: anybody can forge one that says a path is narrow.
PMTUDISC_PROBE: Final = 3
SOL_UDP: Final = 17
MEMBERSHIP: Final = struct.Struct("=4s4si")  # of IPv4: group, own address, interface
MEMBERSHIP_6: Final = struct.Struct("=16sI")  # of IPv6: group, interface


def can(bound: socket.socket, option: int, value: int) -> bool:
    """Whether the kernel knows an option of UDP; it is set then."""
    try:
        bound.setsockopt(SOL_UDP, option, value)
    except OSError:
        return False
    return True


def bound_to(listen: Address) -> socket.socket:
    """Return a socket that listens there and never lets IP fragment."""
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    if not is_literal(listen.host):
        try:
            family = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_DGRAM)[0][0]
        except OSError as error:
            raise CannotStart(f"listen: {listen.host} is not known: {error.strerror}") from None
    bound = _opened(family)
    try:
        bound.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, PMTUDISC_PROBE)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, PMTUDISC_PROBE)
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_DONTFRAG, 1)
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind((listen.host, listen.port))
    except OSError as error:
        bound.close()
        raise CannotStart(f"listen: {listen}: {_why(error)}") from None
    return bound


def member_of(multicast: Multicast, sender: socket.socket) -> socket.socket:
    """Return a socket that hears the group, and let the other one speak to it."""
    group, interface, ttl = multicast
    family = socket.AF_INET6 if ":" in group.host else socket.AF_INET
    if family != sender.family:
        raise CannotStart(f"multicast: {group}: listen has an address of the other IP")
    heard = _opened(family)
    try:
        heard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # several daemons a machine
        heard.bind((group.host, group.port))
        packed = socket.inet_pton(family, group.host)
        if family == socket.AF_INET:
            own, index = _interface(interface)
            here = MEMBERSHIP.pack(packed, own, index)
            heard.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, here)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, here)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
        else:
            index = socket.if_nametoindex(interface) if interface else 0
            here = MEMBERSHIP_6.pack(packed, index)
            heard.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, here)
            sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
            sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, ttl)
    except OSError as error:
        heard.close()
        raise CannotStart(f"multicast: {group}: {_why(error)}") from None
    return heard


def _interface(name: str) -> tuple[bytes, int]:
    """Return what names an interface to IPv4: its address or its number, the other being none."""
    try:
        return ipaddress.IPv4Address(name).packed, 0
    except ValueError:
        return bytes(4), socket.if_nametoindex(name) if name else 0


def _opened(family: int) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        opened.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
    return opened


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use, perhaps by another daemon"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine does not have that address"
    if error.errno == errno.ENODEV:
        return "no interface leads there; name one in multicast_interface"
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)


def is_literal(host: str) -> bool:
    """Whether it is an address and no name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host.partition("%")[0])
        except OSError:
            continue
        return True
    return False


def resolve(address: Address, family: int) -> SocketAddress | None:
    """Return where a peer is, if its name is known now."""
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

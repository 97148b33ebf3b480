"""What rings of many should do by calculation, beside which measurements stand.

A rotation is `T = N b + M c`: b for each visit of the token, c for each of M messages on the
token's way. So a ring orders `M / T`. Whoever sends to each peer by itself spends `send` for each
copy, and everybody spends `receive` for each message: on one machine, whose cores all daemons
share, that bounds the rate too.
"""

from typing import NamedTuple

from evensong.core.totem.parameters import LAN, Parameters

# Microseconds for a packet on one machine: so much for each copy that is sent, and so much at every
# daemon. What is measured sets the scale, these only the proportion.
SEND_US, RECEIVE_US = 1.3, 1.4
HOP_US = 25.0  # until a process that waits for a datagram runs
CALIBRATED = 3  # daemons of the ring that costs are taken from


class Costs(NamedTuple):
    """What things cost a processor, in microseconds."""

    send: float  # a copy of a packet
    receive: float  # a packet, with its delivery
    visit: float  # of the token
    hop: float = HOP_US  # of a datagram; costs nobody anything

    @classmethod
    def of(cls, nodes: int, cpu_us: float, idle_rotation_us: float) -> "Costs":
        """Take them from a ring: CPU of all for a packet, and a rotation with hardly any."""
        scale = cpu_us / (SEND_US * (nodes - 1) + RECEIVE_US * nodes)
        visit = max(1.0, idle_rotation_us / nodes - HOP_US)
        return cls(scale * SEND_US, scale * RECEIVE_US, visit)

    def cpu_us(self, nodes: int) -> float:
        """Return the CPU time of all for a packet."""
        return self.send * (nodes - 1) + self.receive * nodes

    def per_visit_us(self) -> float:
        """Return b."""
        return self.visit + self.hop

    def per_packet_us(self, nodes: int) -> float:
        """Return c: the next holder receives while the one before it still sends."""
        return max(self.send * (nodes - 1), self.receive)


class Modelled(NamedTuple):
    """What a ring should do."""

    rotation_us: float
    packets_per_s: float
    cpu_us: float  # of all daemons, for a packet
    failover_ms: float


def packets_a_rotation(nodes: int, parameters: Parameters = LAN) -> int:
    """Return M: what all together may send while the token goes round."""
    return min(parameters.window_size, nodes * parameters.messages_max)


def own_machines(nodes: int, costs: Costs) -> Modelled:
    """Return what processors do that have a core of their own each."""
    packets = packets_a_rotation(nodes)
    rotation = nodes * costs.per_visit_us() + packets * costs.per_packet_us(nodes)
    rate = 1e6 * packets / rotation
    return Modelled(rotation, rate, costs.cpu_us(nodes), failover_ms(nodes, costs))


def one_machine(nodes: int, costs: Costs, cores: int) -> Modelled:
    """Return what daemons do that share the cores of one machine."""
    apart, cpu_us = own_machines(nodes, costs), costs.cpu_us(nodes)
    rate = min(apart.packets_per_s, 1e6 * min(cores, nodes) / cpu_us)
    return Modelled(1e6 * packets_a_rotation(nodes) / rate, rate, cpu_us, apart.failover_ms)


def failover_ms(nodes: int, costs: Costs, parameters: Parameters = LAN) -> float:
    """Return how soon survivors go on: silence, those who stay silent, six rotations of few."""
    survivors = nodes - 1
    waiting = parameters.token_loss + (parameters.consensus if survivors > 0 else 0)
    return (waiting + 6 * survivors * costs.per_visit_us()) / 1_000

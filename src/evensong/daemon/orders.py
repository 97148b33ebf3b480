"""What may be asked over the control socket, and the answers."""

import base64
import binascii
from typing import TYPE_CHECKING, Final, final

from evensong import __version__
from evensong.core.effects import Packet, Service
from evensong.core.groups.packet import FOREIGN
from evensong.core.totem.wire import MESSAGE, REGULAR_FRAME
from evensong.core.unit import UNIT, body_of
from evensong.daemon.control import Answer, Later, Request
from evensong.daemon.datagrams import Datagrams
from evensong.daemon.driver import Break, Driver, clock
from evensong.daemon.flood import flood
from evensong.daemon.observer import Memory
from evensong.daemon.pace import Pace
from evensong.daemon.receipts import Receipts
from evensong.daemon.seal import OVERHEAD
from evensong.daemon.settings import Settings
from evensong.daemon.tail import Tail
from evensong.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable

MARK: Final = UNIT.size + len(FOREIGN)  # what a test packet has before its payload
# On a ring: what a message of one datagram needs besides it, also when recovery wraps it.
WRAPPING: Final = OVERHEAD + REGULAR_FRAME.size + MESSAGE.size + MARK
BACKLOG_MAX: Final = 100_000  # packets that may wait for the token
PAYLOADS_MAX: Final = 10_000  # of one request
FLOOD_MAX_S: Final = 86_400
SERVICES: Final = {one.name.lower(): one for one in (Service.AGREED, Service.SAFE)}


@final
class Orders:
    """Answers requests about one driver."""

    def __init__(
        self,
        settings: Settings,
        driver: Driver,
        datagrams: Datagrams,
        tail: Tail,
        pace: Pace,
        receipts: Receipts,
        memory: Memory,
    ) -> None:
        self._settings = settings
        self._driver: Final = driver
        self._datagrams: Final = datagrams
        self._tail: Final = tail
        self._pace: Final = pace
        self._receipts: Final = receipts
        self._spool: Final = memory.spool
        self._flight: Final = memory.flight
        self._started_at: Final = clock()
        self.sessions: Callable[[], Answer] = dict
        self._orders: Final[dict[str, Callable[[Request], Answer | Later]]] = {
            "status": self.status,
            "send": self.send,
            "deliveries": self.deliveries,
            "ignore": self.ignore,
            "flush": self.flush,
            "flight": self.flight,
            "flood": self.flood,
        }

    def add(self, name: str, order: "Callable[[Request], Answer]") -> None:
        """Obey one more order."""
        self._orders[name] = order

    def set_settings(self, settings: Settings) -> None:
        """Show these settings from now on."""
        self._settings = settings

    def answer(self, request: Request) -> Answer | Later:
        """Do what a request asks, or raise `BadRequest`."""
        asked = request.get("do")
        order = self._orders.get(asked) if isinstance(asked, str) else None
        if order is None:
            raise BadRequest(f"do: takes one of {', '.join(self._orders)}; got {asked!r}")
        return order(request)

    def status(self, _: Request) -> Answer:
        """Return who this daemon is, whom it is with, and what went wrong."""
        driver, settings, datagrams = self._driver, self._settings, self._datagrams
        now = clock()
        configuration, change = driver.configuration, driver.change
        counts = driver.counts()
        return {
            "version": __version__,
            "cluster": settings.cluster,
            "node": settings.node,
            "name": settings.name,
            "incarnation": driver.life.incarnation,
            "boot": f"{driver.life.boot:016x}",
            "up_ms": (now - self._started_at) // 1_000,
            "listen": str(settings.listen),
            "insecure": not settings.keys,
            "leaving": driver.is_leaving(),
            "engine": settings.engine,
            "state": change.state if change else "",
            "state_cause": change.cause if change else "",
            "ring": str(configuration.conf_id) if configuration else "",
            "members": list(configuration.members) if configuration else [],
            "cause": configuration.cause if configuration else "",
            "installed_at_us": driver.installed_at,
            "breaks": [_ending(one) for one in driver.breaks],
            "backlog": driver.outbox.backlog(),
            **counts._asdict(),
            "configurations": self._tail.configurations,
            "rings": [
                {
                    "ring": str(one.conf_id),
                    "members": list(one.members),
                    "cause": one.cause,
                    "ms_ago": (now - at) // 1_000,
                }
                for at, one in self._tail.rings
            ],
            "token_visits": self._tail.visits,
            "resent": self._tail.resent,
            "refused": self.refused(),
            "dropped": dict(sorted(driver.core.engine.drops().items())),
            "datagrams_sent": datagrams.sent,
            "send_errors": dict(sorted(datagrams.send_errors.items())),
            "rotation": {
                "count": self._pace.rotations,
                "p50_us": self._pace.rotation_us(50),
                "p99_us": self._pace.rotation_us(99),
            },
            "trace": self._spool.status() if self._spool else {"level": "off"},
            "lag": {
                "recent_us": driver.lag.recent_us(now),
                "worst_us": driver.lag.worst_us,
                "turn_worst_us": driver.lag.turn_worst_us,
                "late": driver.lag.late,
            },
            "peers": self._about_peers(now),
            "clients": self.sessions(),
        }

    def _about_peers(self, now: int) -> dict[str, Answer]:
        driver, datagrams = self._driver, self._datagrams
        return {
            str(peer): {
                "address": datagrams.address_of(peer),
                "configured": str(address),
                "heard_ms_ago": (now - driver.heard_at[peer]) // 1_000
                if peer in driver.heard_at
                else None,
                "ignored": peer in driver.ignored,
                "refused": {
                    reason: count
                    for (reason, whom), count in sorted(driver.refusals.items())
                    if whom == peer
                },
            }
            for peer, address in sorted(self._settings.peers.items())
        }

    def refused(self) -> dict[str, int]:
        """Return how many datagrams were refused, by reason."""
        by_reason: dict[str, int] = {}
        for (reason, _), count in sorted(self._driver.refusals.items()):
            by_reason[reason] = by_reason.get(reason, 0) + count
        return by_reason

    def deliveries(self, _: Request) -> Answer:
        """Return counters of what was delivered, and the last few."""
        tail = self._tail
        delivered = self._driver.counts().delivered
        return {
            "delivered": delivered,
            "by_sender": self._by_sender(),
            "by_service": self._by_service(delivered),
            "last": [
                {
                    "ring": str(one.ring_id),
                    "seq": one.seq,
                    "sender": one.sender_id,
                    "service": one.service.name.lower(),
                    "configuration": str(conf_id),
                    "payload": base64.b64encode(body_of(one.payload)[len(FOREIGN) :]).decode(),
                }
                for conf_id, one in tail.last()
            ],
        }

    def _by_service(self, delivered: int) -> dict[str, int]:
        counts = {one.name.lower(): count for one, count in self._tail.by_service.items()}
        counts["agreed"] = delivered - sum(counts.values())
        return {name: count for name, count in counts.items() if count or name in SERVICES}

    def _by_sender(self) -> dict[str, int]:
        exchanged = self._driver.core.groups.exchanged
        found = {
            sender: count - exchanged.get(sender, 0)
            for sender, count in sorted(self._driver.delivered_by.items())
        }
        return {str(sender): count for sender, count in found.items() if count}

    def send(self, request: Request) -> Answer | Later:
        """Submit payloads, all or none; answer when they are delivered here if asked to wait."""
        service = _service(request)
        payloads = request.get("payloads")
        if not isinstance(payloads, list) or not payloads:
            raise BadRequest("payloads: takes a list of texts in base64")
        if len(payloads) > PAYLOADS_MAX:  # reading more would hold the ring up
            raise BadRequest(f"payloads: at most {PAYLOADS_MAX} at once; got {len(payloads)}")
        is_awaited = request.get("wait", False)
        if not isinstance(is_awaited, bool):
            raise BadRequest("wait: takes true or false")
        size_max = self._payload_max()
        packets = [Packet(service, _payload(one, size_max)) for one in payloads]
        driver = self._driver
        if driver.is_leaving():
            raise BadRequest("send: this daemon is leaving")
        if driver.outbox.backlog() + len(packets) > BACKLOG_MAX:
            raise BadRequest(f"send: {BACKLOG_MAX} messages may wait, no more")
        if not is_awaited:
            driver.submit(packets)
            return {"submitted": len(packets), "backlog": driver.outbox.backlog()}
        later = Later()
        outbox = driver.outbox
        self._receipts.expect(outbox.pulled + outbox.backlog() + len(packets), later)
        driver.submit(packets)
        return later

    def flush(self, _: Request) -> Answer:
        """Write the trace down as far as it goes."""
        if self._spool is None:
            raise BadRequest("flush: this daemon has no trace; `trace` in its settings is off")
        self._spool.flush(clock())
        return {"trace": self._spool.status()}

    def flight(self, _: Request) -> Answer:
        """Return what the flight recorder remembers."""
        return {"entries": self._flight.entries()}

    def flood(self, request: Request) -> Answer:
        """Send as much as the ring takes, for so long; no seconds stop it."""
        self._must_be_testing("flood")
        service = _service(request)
        size, seconds = request.get("size"), request.get("seconds")
        size_max = self._payload_max()
        if not isinstance(size, int) or not 8 <= size <= size_max:
            raise BadRequest(f"size: takes 8 to {size_max} bytes; got {size!r}")
        if not isinstance(seconds, int | float) or not 0 <= seconds <= FLOOD_MAX_S:
            raise BadRequest(f"seconds: takes 0 to {FLOOD_MAX_S}; got {seconds!r}")
        flood(self._driver, service, size, seconds)
        return {"flooding": seconds > 0}

    def ignore(self, request: Request) -> Answer:
        """Cut this daemon off from some peers; an empty list heals."""
        self._must_be_testing("ignore")
        peers = request.get("peers")
        if not isinstance(peers, list) or not set(map(str, peers)) <= set(
            map(str, self._settings.peers)
        ):
            raise BadRequest("peers: takes a list of this daemon's peers")
        self._driver.ignore(int(peer) for peer in peers)
        return {"ignored": sorted(self._driver.ignored)}

    def _payload_max(self) -> int:
        return self._settings.packet - self._settings.wrapping() - MARK

    def _must_be_testing(self, order: str) -> None:
        if not self._settings.testing:
            raise BadRequest(f"{order}: is for tests; it takes `testing = true` in the settings")


def _service(request: Request) -> Service:
    service = SERVICES.get(str(request.get("service", "agreed")))
    if service is None:
        raise BadRequest(f"service: takes one of {', '.join(SERVICES)}")
    return service


def _ending(one: Break) -> Answer:
    return {
        "at_us": one.at,
        "ring": str(one.configuration.conf_id),
        "members": list(one.configuration.members),
        "cause": one.cause,
        "about": one.about,
        "lag_us": one.lag_us,
    }


def _payload(raw: object, size_max: int) -> bytes:
    try:
        payload = base64.b64decode(raw if isinstance(raw, str) else "?", validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest("payloads: takes a list of texts in base64") from None
    if len(payload) > size_max:
        raise BadRequest(f"payloads: at most {size_max} bytes each; got {len(payload)}")
    return payload

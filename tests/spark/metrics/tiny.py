"""A trace small enough to be measured by hand: two nodes find each other and say three things."""

from pathlib import Path
from typing import TYPE_CHECKING

from evensong.core.effects import Service
from evensong.core.ids import Configuration, RingId
from evensong.core.unit import UnitId
from evensong.sim.history import Delivery, Event, History, Life, Send
from evensong.spark.places import find_places
from evensong.spark.reading import Trace, read_places

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RING = RingId(8, 1)
MS = 1_000


def read(spark: "SparkSession", directory: Path) -> Trace:
    found = find_places(spark, [str(directory)], directory / "scratch")
    assert not found.refused
    return read_places(spark, found.places)


def tiny(clocks: tuple[str, str] | None = None) -> History:
    """Return the history; with clocks, as daemons of those machines would have written it."""
    history = History()
    one, two = Life(1, 1), Life(2, 1)
    history.lives[1, 1], history.lives[2, 1] = one, two
    starts = [_start(clock) for clock in clocks] if clocks else [(), ()]

    _event(one, 0, "start", aux=starts[0])
    _conf(one, 0, RingId(4, 1), (1,), "start")
    _state(one, 0, "gather", "start")
    _event(one, 35 * MS, "fault_inject", cause="a blow")
    _state(one, 50 * MS, "commit", "agreed")
    _conf(one, 60 * MS, RING, (1, 2), "start")
    _token(one, 60 * MS, sent=2)
    _send(one, 60 * MS, 1, 1, Service.AGREED, messages=3, size=30)
    _send(one, 60 * MS, 2, 2, Service.SAFE, messages=1, size=10)
    _deliver(one, 60 * MS, one, 1, 1, Service.AGREED, messages=3, size=30)
    _token(one, 61 * MS, resent=1)
    _deliver(one, 63 * MS, two, 1, 3, Service.AGREED, messages=1, size=5)
    _token(one, 64 * MS)
    _deliver(one, 64 * MS, one, 2, 2, Service.SAFE, messages=1, size=10)
    _end(one, 200 * MS)

    _event(two, 1 * MS, "start", aux=starts[1])
    _conf(two, 1 * MS, RingId(4, 2), (2,), "start")
    _state(two, 1 * MS, "gather", "start")
    _state(two, 9 * MS, "commit", "agreed")
    _conf(two, 10 * MS, RingId(6, 2), (2,), "start")
    _token(two, 30 * MS, ring="6.2")
    _state(two, 40 * MS, "gather", "foreign beacon")
    _state(two, 42 * MS, "gather", "join")
    _state(two, 45 * MS, "commit", "agreed")
    _conf(two, 65 * MS, RING, (1, 2), "foreign beacon")
    _token(two, 65 * MS, sent=1)
    _send(two, 65 * MS, 1, 3, Service.AGREED, messages=1, size=5)
    _deliver(two, 66 * MS, one, 1, 1, Service.AGREED, messages=3, size=30)
    _deliver(two, 72 * MS, two, 1, 3, Service.AGREED, messages=1, size=5)
    _deliver(two, 80 * MS, one, 2, 2, Service.SAFE, messages=1, size=10)
    _end(two, 190 * MS)
    return history


def _start(clock: str) -> tuple[tuple[str, str], ...]:
    return (("boot", "00ff"), ("level", "events"), ("host", clock))


def _event(
    life: Life, t_us: int, etype: str, cause: str = "", aux: tuple[tuple[str, str], ...] = ()
) -> None:
    conf_no = len(life.confs) - 1
    life.events.append(Event(len(life.deliveries), t_us, etype, conf_no, None, cause, aux))


def _conf(life: Life, t_us: int, conf_id: RingId, members: tuple[int, ...], cause: str) -> None:
    before = life.confs[-1].conf_id if life.confs else RingId(0, 0)
    life.install(Configuration(conf_id, before, members, transitional=False, cause=cause), t_us)


def _state(life: Life, t_us: int, state: str, cause: str) -> None:
    _event(life, t_us, "state", cause, (("state", state), ("ring", "0.0"), ("about", "0")))


def _token(life: Life, t_us: int, sent: int = 0, resent: int = 0, ring: str = str(RING)) -> None:
    aux = {"ring": ring, "token_seq": 1, "seq": 0, "aru": 0, "fcc": 0, "sent": sent}
    told = [(name, str(value)) for name, value in {**aux, "resent": resent}.items()]
    _event(life, t_us, "token", aux=tuple(told))


def _send(
    life: Life, t_us: int, origin_no: int, seq: int, service: Service, *, messages: int, size: int
) -> None:
    unit = UnitId(life.node, life.incarnation, origin_no)
    pos, conf_no = len(life.deliveries), len(life.confs) - 1
    life.sends.append(Send(unit, RING, seq, conf_no, pos, service, size, 7, t_us, messages))


def _deliver(
    life: Life,
    t_us: int,
    sender: Life,
    origin_no: int,
    seq: int,
    service: Service,
    *,
    messages: int,
    size: int,
) -> None:
    unit = UnitId(sender.node, sender.incarnation, origin_no)
    conf_no = len(life.confs) - 1
    life.deliveries.append(
        Delivery(unit, RING, seq, conf_no, service, False, 0, False, size, 7, t_us, messages)
    )


def _end(life: Life, t_us: int) -> None:
    life.end("quiesce", t_us)

"""The rows of a segment, judged one by one as the in-memory check does it.

Segments are judged side by side, each as one task of Spark. A segment knows the configurations of
all lives of its run, and of deliveries and sends those in its own configurations; positions are
counted anew, so that the others are empty. What the check says of it is exact.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from evensong.core.effects import Service
from evensong.core.ids import Configuration, RingId
from evensong.core.unit import UnitId
from evensong.sim import evs
from evensong.sim.evs import Finding, Reading
from evensong.sim.evs.sets import owed_by_members
from evensong.sim.history import Delivery, Event, History, Life, LifeId, Send
from evensong.sim.transis import judge as lansis_judge
from evensong.spark.absent import ring_id
from evensong.spark.witness import Teller
from evensong.trace.schema import SERVICE_BY_CODE

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    Judge = Callable[[Reading], Finding]

OF_RINGS: Final = (
    "EVS1.1",
    "EVS1.3",
    "EVS1.4",
    "EVS2.2",
    "EVS2.3",
    "EVS3",
    "EVS4",
    "EVS5",
    "EVS6.1",
    "EVS6.2",
    "EVS6.3",
    "EVS7.1",
    "TR2",
    "TF3",
    "TR3",
    "TG",
    "FIFO",
)
OF_DOMAINS: Final = (
    "EVS1.1",
    "EVS1.3",
    "EVS1.4",
    "EVS2.2",
    "EVS3",
    "TR2",
    "TR3",
    "LV1",
    "LV2",
    "LC1",
    "LA1",
    "LS1",
    "LB1",
)
AGAIN: Final = "again"  # no property: how many deliveries were second ones
OWN: Final = "own"  # no property: how many of its own units a life delivered
CONF, DELIVERY, SEND, LIFE = range(4)
INPUT: Final = (
    "run_id string, segment int, kind int, node bigint, incarnation bigint, conf_no bigint, "
    "pos bigint, ring_seq bigint, ring_rep bigint, seq bigint, sender bigint, sender_inc bigint, "
    "origin_no bigint, service int, size bigint, digest bigint, t_us bigint, conf_id string, "
    "prev_id string, is_transitional boolean, members array<bigint>, ended string, "
    "submitted bigint, stable_seq bigint, after_gap boolean"
)
OUTPUT: Final = (
    "run_id string, segment int, property string, is_count boolean, n_checked bigint, "
    "n_unknown bigint, node bigint, incarnation bigint, conf_id string, text string"
)
STORIES_MAX: Final = 5
_WIDTH: Final = 1 << 64
Columns = dict[str, list]  # type: ignore[type-arg]  # columns of several types


def judge_segment(table: "pa.Table") -> "pa.Table":
    """Judge the rows of one segment of a ring; return counts and violations."""
    return _judge(table, [evs.PROPERTIES[name] for name in OF_RINGS])


def judge_domain_segment(table: "pa.Table") -> "pa.Table":
    """Judge the rows of one segment of a broadcast domain likewise."""
    judges = [lansis_judge.PROPERTIES[name] for name in OF_DOMAINS]
    return _judge(table, [*judges, lansis_judge.names_used_twice])


def _judge(table: "pa.Table", judges: "list[Judge]") -> "pa.Table":
    import pyarrow as pa

    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    run_id, segment = columns["run_id"][0], columns["segment"][0]
    reading = Reading(_history(columns))
    findings = [judge(reading) for judge in judges]
    findings += [members_deliver(reading, _submitters(columns)), _second_deliveries(reading)]
    findings.append(_shared_positions(reading, columns))
    teller = Teller(reading, (v for one in findings for v in one.violations[:STORIES_MAX]))
    told: list[tuple[object, ...]] = []
    for finding in findings:
        about = (run_id, segment, finding.property_id)
        told.append((*about, True, finding.checked, finding.unknown, None, None, None, None))
        for number, violation in enumerate(finding.violations):
            text = teller.story(violation) if number < STORIES_MAX else violation.text
            node = violation.nodes[0] if violation.nodes else None
            told.append((*about, False, 0, 0, node, None, _where(reading, violation), text))
    for node, incarnation, count in own_units(reading):
        told.append((run_id, segment, OWN, True, count, 0, node, incarnation, None, None))
    types = [
        pa.string(), pa.int32(), pa.string(), pa.bool_(), pa.int64(), pa.int64(), pa.int64(),
        pa.int64(), pa.string(), pa.string(),
    ]  # fmt: skip
    names = [column.split()[0] for column in OUTPUT.split(", ")]
    values = list(zip(*told, strict=True))
    arrays = [pa.array(list(column), kind) for column, kind in zip(values, types, strict=True)]
    return pa.table(arrays, names=names)


def _where(reading: Reading, violation: evs.Violation) -> str | None:
    """Return the configuration in which the first unit of a violation was sent."""
    for unit_id in violation.units:
        number = reading.units.number_by_id.get(unit_id)
        if number is not None and number < reading.n_sent_units:
            return str(reading.sent_in(number))
    return None


def members_deliver(reading: Reading, submitted: Collection[LifeId]) -> Finding:
    """LV-1, as far as it is about a segment: members of a final configuration owe what was sent."""
    found = Finding("LV-1")
    for one in reading.lives:
        if one.life.ended == "quiesce" and (one.node, one.life.incarnation) in submitted:
            owed_by_members(reading, one, found)
    return found


def own_units(reading: Reading) -> Iterator[tuple[int, int, int]]:
    """Yield for each life how many of its own units it delivered."""
    for one in reading.lives:
        own = (one.node, one.life.incarnation)
        mine = {
            ids.origin_no for ids in (reading.units.ids[u] for u in one.units) if ids[:2] == own
        }
        yield (*own, len(mine))


def _second_deliveries(reading: Reading) -> Finding:
    """Count deliveries of a unit that the life had delivered before: orders leave them out."""
    found = Finding(AGAIN)
    found.checked = sum(len(one.units) - len(one.first_units) for one in reading.lives)
    return found


def _shared_positions(reading: Reading, columns: Columns) -> Finding:
    """EVS1.2, as far as it is about a segment: no two deliveries of a life have one position.

    That none is missing follows, since a life's positions are as many as its deliveries.
    """
    found = Finding("EVS1.2")
    places: dict[LifeId, list[int]] = {}
    rows = (columns[name] for name in ("node", "incarnation", "kind", "pos"))
    for node, incarnation, kind, pos in zip(*rows, strict=True):
        if kind == DELIVERY:
            places.setdefault((node, incarnation), []).append(pos)
    for key, taken in places.items():
        for pos in sorted(pos for pos, n in Counter(taken).items() if n > 1):
            name = reading.by_life[key].name if key in reading.by_life else f"p{key[0]}"
            found.blame(f"{name} deliveries: several at position {pos}", (key[0],))
    return found


# From columns to a history


def _submitters(columns: Columns) -> set[LifeId]:
    """Return the lives of which it is known how much their clients handed over."""
    whose = zip(columns["node"], columns["incarnation"], columns["submitted"], strict=True)
    return {(node, incarnation) for node, incarnation, count in whose if count}


def _history(columns: Columns) -> History:
    """Put the rows of a segment together, life by life."""
    history = History()
    rows: dict[tuple[int, int, int], list[int]] = {}
    whose = zip(columns["node"], columns["incarnation"], columns["kind"], strict=True)
    for at, key in enumerate(whose):
        rows.setdefault(key, []).append(at)
    for node, incarnation, kind in sorted(rows):
        if kind == LIFE:
            life = Life(node, incarnation)
            life.ended = columns["ended"][rows[node, incarnation, LIFE][0]] or ""
            history.lives[node, incarnation] = life
    for life in history.lives.values():
        _fill(life, columns, rows)
    return history


def _fill(life: Life, columns: Columns, rows: dict[tuple[int, int, int], list[int]]) -> None:
    def rows_of(kind: int) -> list[int]:
        return rows.get((life.node, life.incarnation, kind), [])

    pos, conf_no = columns["pos"], columns["conf_no"]
    delivered = sorted(rows_of(DELIVERY), key=pos.__getitem__)
    places = [pos[at] for at in delivered]
    for at in sorted(rows_of(CONF), key=conf_no.__getitem__):
        conf = _configuration(columns, at)
        life.confs.append(conf)
        place = bisect_left(places, pos[at])
        number = len(life.confs) - 1
        life.events.append(Event(place, columns["t_us"][at], "conf", number, conf))
    life.deliveries.extend(_deliveries(columns, delivered))
    order = sorted(rows_of(SEND), key=lambda at: (columns["origin_no"][at], pos[at]))
    for at in order:
        place = bisect_left(places, pos[at])
        life.sends.append(_send(life, columns, at, place))


def _configuration(columns: Columns, at: int) -> Configuration:
    return Configuration(
        ring_id(columns["conf_id"][at]),
        ring_id(columns["prev_id"][at]),
        tuple(columns["members"][at]),
        transitional=columns["is_transitional"][at],
        cause="",
    )


def _service(code: int) -> Service:
    return SERVICE_BY_CODE.get(code, Service.AGREED)


def _number(conf_no: int | None) -> int:
    return -1 if conf_no is None else conf_no


def _deliveries(columns: Columns, places: Iterable[int]) -> Iterable[Delivery]:
    for at in places:
        yield Delivery(
            UnitId(columns["sender"][at], columns["sender_inc"][at], columns["origin_no"][at]),
            RingId(columns["ring_seq"][at], columns["ring_rep"][at]),
            columns["seq"][at],
            _number(columns["conf_no"][at]),
            _service(columns["service"][at]),
            False,
            columns["stable_seq"][at],
            columns["after_gap"][at],
            columns["size"][at],
            columns["digest"][at] % _WIDTH,
            columns["t_us"][at],
        )


def _send(life: Life, columns: Columns, at: int, place: int) -> Send:
    return Send(
        UnitId(life.node, life.incarnation, columns["origin_no"][at]),
        RingId(columns["ring_seq"][at], columns["ring_rep"][at]),
        columns["seq"][at],
        _number(columns["conf_no"][at]),
        place,
        _service(columns["service"][at]),
        columns["size"][at],
        columns["digest"][at] % _WIDTH,
        columns["t_us"][at],
    )

"""Rows of one part of a table, read from Parquet some at a time, and asked column by column.

What a file holds is checked before anything is made of it: its schema, the checksums of its pages,
nulls where none may be. It takes the memory of a batch, however large the file is.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from evensong.core.ids import RingId
from evensong.errors import BadTrace
from evensong.sim.history import GROUP_ETYPES
from evensong.trace.columns import Columns
from evensong.trace.schema import COLUMNS, LATER, arrow, schema

if TYPE_CHECKING:
    import pyarrow

BATCH_ROWS: Final = 1 << 16
# What an event is made of; the others are those of protocols to come.
TELLING: Final = (
    "incarnation",
    "pseq",
    "pos",
    "t_us",
    "etype",
    "conf_no",
    "conf_id",
    "conf_kind",
    "prev_conf_id",
    "members",
    "cause",
    "aux",
)


class Row:
    """One row; asks for a column by name and by type."""

    __slots__ = ("_columns", "_number")

    def __init__(self, columns: Columns, number: int) -> None:
        self._columns: Final = columns
        self._number: Final = number

    def whole(self, column: str) -> int:
        """Return an integer."""
        value = self._columns[column][self._number]
        assert isinstance(value, int)
        return value

    def truth(self, column: str) -> bool:
        """Return a boolean."""
        return bool(self._columns[column][self._number])

    def text(self, column: str) -> str:
        """Return a string, empty for null."""
        value = self._columns[column][self._number]
        return value if isinstance(value, str) else ""

    def several(self, column: str) -> Sequence[object]:
        """Return a list, empty for null."""
        value = self._columns[column][self._number]
        return value if isinstance(value, list) else ()

    def conf_no(self) -> int:
        """Return the configuration's number, -1 for none."""
        return self.number_or_none("conf_no")

    def number_or_none(self, column: str) -> int:
        """Return a number that may be null, -1 for that."""
        value = self._columns[column][self._number]
        return value if isinstance(value, int) else -1

    def check_ring_level(self, path: Path, columns: Mapping[str, int]) -> None:
        """Refuse what a ring does not have: parts of units, and clients of its own."""
        for column, due in columns.items():
            if self.whole(column) != due:
                raise BadTrace(f"{path}: {column} {self.whole(column)} is not one of a ring: {due}")

    def ring_id(self) -> RingId:
        """Return the ring the unit was sequenced on."""
        return RingId(self.whole("ring_seq"), self.whole("ring_rep"))


def rows_of(path: Path, table: str) -> Iterator[Row]:
    """Return all rows of a part."""
    names = [name for name, _, _ in COLUMNS[table]]
    for batch in _batches(path, table, names):
        columns = _columns(path, batch, names)
        yield from (Row(columns, number) for number in range(batch.num_rows))


def telling_rows(path: Path) -> Iterator[tuple[Row, int]]:
    """Return the rows of a part of `events`, and how many were passed over before each.

    Passed over are visits of the token with another one right behind them in the same life, and
    what is about groups.
    """
    for batch in _batches(path, "events", TELLING):
        kept = _telling_in(batch)
        columns = _columns(path, batch.take(kept), TELLING)
        before = -1
        for number, at in enumerate(kept.to_pylist()):
            yield Row(columns, number), at - before - 1
            before = at


def _telling_in(batch: "pyarrow.RecordBatch") -> "pyarrow.Array":
    """Return the numbers of the rows of a batch that are not passed over.

    Its last one never is. A row is passed over only if its number is followed by the next, so that
    those passed over between two kept rows are as many as their numbers say, or a gap is noticed.
    """
    pa, compute = arrow(), arrow("pyarrow.compute")
    earlier, later = batch.slice(0, batch.num_rows - 1), batch.slice(1)
    etypes = earlier.column("etype")
    is_visit = compute.equal(etypes, "token")
    is_visit_behind = compute.equal(later.column("etype"), "token")
    is_of_groups = compute.is_in(etypes, pa.array(GROUP_ETYPES))
    is_idle = compute.or_(is_of_groups, compute.and_(is_visit, is_visit_behind))
    numbers = [compute.cast(one.column("pseq"), pa.int64(), safe=False) for one in (later, earlier)]
    is_next = compute.and_(
        compute.equal(earlier.column("incarnation"), later.column("incarnation")),
        compute.equal(compute.subtract(*numbers), 1),
    )
    is_kept = compute.invert(compute.and_(is_idle, is_next))
    return compute.indices_nonzero(pa.concat_arrays([is_kept, pa.array([True])]))


def _batches(path: Path, table: str, names: Sequence[str]) -> "Iterator[pyarrow.RecordBatch]":
    pa, parquet = arrow(), arrow("pyarrow.parquet")
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            _check_schema(pa, path, table, file.schema_arrow)
            written = set(file.schema_arrow.names)
            chosen = [name for name in names if name in written]
            rest = file.metadata.num_rows
            for batch in file.iter_batches(BATCH_ROWS, columns=chosen):
                batch.validate(full=True)
                _check_nulls(path, table, batch)
                rest -= batch.num_rows
                if batch.num_rows:
                    yield batch
            if rest:  # a footer that is damaged may name more rows than a column's pages hold
                raise ValueError(f"its rows are {rest} fewer than it says")
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadTrace(f"{path}: cannot be read as Parquet: {error}") from error


def _columns(path: Path, batch: "pyarrow.RecordBatch", names: Sequence[str]) -> Columns:
    absent: list[object] = [None] * batch.num_rows
    try:
        return {
            name: batch.column(name).to_pylist() if name in batch.schema.names else absent
            for name in names
        }
    except ValueError as error:
        raise BadTrace(f"{path}: cannot be read: {error}") from error


def _check_schema(pa: ModuleType, path: Path, table: str, found: "pyarrow.Schema") -> None:
    written = {field.name: field.type for field in found}
    for field in pa.schema(schema(table)):
        if field.name not in written and field.name in LATER:
            continue
        if field.name not in written:
            raise BadTrace(f"{path}: has no column {field.name}")
        if written[field.name] != field.type:
            raise BadTrace(
                f"{path}: column {field.name} is {written[field.name]}, not {field.type}"
            )


def _check_nulls(path: Path, table: str, batch: "pyarrow.RecordBatch") -> None:
    for name, _, may_be_null in COLUMNS[table]:
        is_there = name in batch.schema.names
        if is_there and not may_be_null and batch.column(name).null_count:
            raise BadTrace(f"{path}: column {name} has nulls")

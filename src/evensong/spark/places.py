"""Where traces lie, for Spark: what is a trace, what is not, and what must be converted first.

A path is what `evensong trace check` takes (settings, a state directory, a directory of such, a
trace, a run) or an address that Spark can read (`hdfs://…`, `s3a://…`), both with wildcards. Files
of this machine are looked at before Spark starts to read, so that what is damaged is named; of
files elsewhere Spark names the first that it stumbles over.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import glob
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from evensong.core.effects import Service
from evensong.core.engine import TOTEM, TRANSIS
from evensong.errors import BadTrace
from evensong.spark.reading import AS_NAMED
from evensong.spark.trouble import file_trouble
from evensong.trace.columns import part_name
from evensong.trace.convert import merge_into
from evensong.trace.directory import Place as Directory
from evensong.trace.directory import find, sources_in, steadily
from evensong.trace.parquet import node_of, parts_among, parts_in, runs_in
from evensong.trace.schema import (
    CODE_BY_SERVICE,
    COLUMNS,
    LATER,
    SERVICE_BY_CODE,
    TABLES,
    arrow,
    schema,
)
from evensong.trace.spool import spools_in

if TYPE_CHECKING:
    from pyarrow import Schema
    from pyarrow.parquet import ParquetFile
    from pyspark.sql import SparkSession

    from evensong.spark.history import History

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_WILD: Final = re.compile(r"[*?\[{]")
_BRACES: Final = re.compile(r"\{([^{}]*)\}")
NO_NAME: Final = "__HIVE_DEFAULT_PARTITION__"  # by which Spark means null
RING_CODES: Final = (CODE_BY_SERVICE[Service.AGREED], CODE_BY_SERVICE[Service.SAFE])
CODES: Final = {TOTEM: RING_CODES, TRANSIS: tuple(SERVICE_BY_CODE)}  # what each engine has
SERVED: Final = ("deliveries", "sends")
_NODE: Final = re.compile(r"(.*)/(run_id=([^/]+)/node=([1-9][0-9]*))")


class Place(NamedTuple):
    """Runs below one directory, as Spark is told to read them."""

    base: str  # what `run_id=…` lies in
    folders: tuple[str, ...]  # `run_id=…` or `run_id=…/node=…`, absolute
    nodes: tuple[tuple[str, int], ...]  # run and node
    last_end: str = ""  # how a node's last life ended if its trace does not say
    has_dictionaries: bool = False  # written in a way that Spark reads slowly
    has_other_services: bool = (
        False  # some that a ring has not; only an engine tells whether it may
    )


class Found(NamedTuple):
    """What the paths lead to."""

    places: list[Place]
    refused: list[str]  # what is no trace, or damaged, and why


def find_places(
    spark: "SparkSession", paths: Iterable[str], scratch: Path, *, running_end: str = ""
) -> Found:
    """Look at every path; what is left over of spools is converted into `scratch`."""
    found = Found([], [])
    for path in paths:
        with _refusing(found):
            if is_elsewhere(path):
                found.places.extend(_elsewhere(spark, path))
                continue
            for one in local_paths(path):
                with _refusing(found):
                    for directory in _directories(one):
                        _look_at(directory, scratch, running_end, found)
    _refuse_twins(found)
    return found


@contextmanager
def _refusing(found: Found) -> Iterator[None]:
    try:
        with _as_bad_trace():
            yield
    except BadTrace as error:
        found.refused.append(str(error))


@contextmanager
def _as_bad_trace() -> Iterator[None]:
    """Say of a file or directory that the system does not let us read that it cannot be read."""
    try:
        yield
    except OSError as error:
        raise BadTrace(f"{error.filename}: cannot be read: {error.strerror or error}") from error


def check_paths(paths: Iterable[str]) -> None:
    """Refuse what is plainly no trace; it takes no Spark, which takes seconds to start."""
    for path in paths:
        if not is_elsewhere(path):
            with _as_bad_trace():
                for one in local_paths(path):
                    _directories(one)


def is_elsewhere(path: str) -> bool:
    """Whether a path is for Spark alone, on another file system."""
    return bool(_ADDRESS.match(path)) and urlsplit(path).scheme != "file"


def local_paths(path: str) -> list[Path]:
    """Return what a path of this machine means: itself, or what its wildcards match.

    Spark could expand them too, but nobody would have looked at the files then.
    """
    name = unquote(urlsplit(path).path) if path.startswith("file:") else path
    if Path(name).exists() or not _WILD.search(name):
        return [Path(name)]
    found = sorted({one for pattern in _alternatives(name) for one in glob(pattern)})
    if not found:
        raise BadTrace(f"{path}: there is nothing of that name")
    return [Path(one) for one in found]


def _alternatives(path: str) -> list[str]:
    """Write out `{a,b}` as Spark does; innermost first, so that braces may nest."""
    braces = _BRACES.search(path)
    if braces is None:
        return [path]
    before, after = path[: braces.start()], path[braces.end() :]
    return [one for word in braces[1].split(",") for one in _alternatives(f"{before}{word}{after}")]


def size_of(paths: Iterable[str]) -> int | None:
    """Return the bytes of the files at some paths; None if any is elsewhere."""
    total = 0
    for path in paths:
        if is_elsewhere(path):
            return None
        with suppress(BadTrace):  # whoever reads it says so
            files = chain.from_iterable(place.rglob("*") for place in local_paths(path))
            total += sum(file.stat().st_size for file in files if file.is_file())
    return total


def _directories(path: Path) -> list[Directory]:
    from evensong.daemon.settings import load

    if path.is_file():
        if path.suffix != ".toml":
            raise BadTrace(f"{path}: a file; a trace is a directory with run_id=… or spools in it")
        settings = load(path)
        return [Directory(settings.trace_dir, settings.state)]
    return find(path.absolute())


def _look_at(directory: Directory, scratch: Path, running_end: str, found: Found) -> None:
    """Add what lies in a directory of this machine, run by run."""
    last_end = ""
    if directory.state is not None:
        last_end = running_end if _is_running(directory.state) else "lost"
    root = directory.directory
    if directory.state is not None or spools_in(root):
        root = _converted(root, scratch / str(len(found.places)))
    for run_id, run in runs_in(root).items():
        with _refusing(found):
            nodes, seen = _look_at_run(run)
            whose = tuple((run_id, node) for node in nodes)
            found.places.append(Place(str(run.parent), (str(run),), whose, last_end, *seen))


def _is_running(state: Path) -> bool:
    from evensong.daemon.control import ask, is_listening
    from evensong.errors import BadRequest, Unreachable

    if not is_listening(state):
        return False
    with suppress(Unreachable, BadRequest):
        ask(state, {"do": "flush"})
    return True


def _converted(root: Path, target: Path) -> Path:
    """Write a daemon's trace, parts and spools, as one trace in Parquet."""

    def convert() -> Path:
        sources = sources_in(root)
        for whose in sorted(sources):
            folder = target / f"run_id={whose[0]}" / f"node={whose[1]}"
            folder.mkdir(parents=True, exist_ok=True)
            merge_into(folder, whose, sources)
        return target

    return steadily(root, convert)


class Seen(NamedTuple):
    """What files turned out to be like."""

    has_dictionaries: bool
    has_other_services: bool


def _look_at_run(run: Path) -> tuple[list[int], Seen]:
    """Refuse a run with a file missing, damaged or of another schema; return its nodes."""
    _check_name(run.name.removeprefix("run_id="), str(run))
    _refuse_strays(run)
    nodes = []
    seen = []
    for folder in sorted(run.glob("node=*")):
        os.listdir(folder)  # which says why it cannot be read; to a pattern it is merely empty
        nodes.append(node_of(folder))
        for table, parts in parts_in(folder).items():
            seen += [_look_at_file(folder / part_name(table, part), table) for part in parts]
    if not nodes:
        raise BadTrace(f"{run}: has no node=… in it")
    return nodes, Seen(*map(any, zip(*seen, strict=True)))


def _check_name(run_id: str, place: str) -> None:
    """Refuse a run that Spark would know by another name than everybody else."""
    if not run_id or "%" in run_id or run_id == NO_NAME:
        raise BadTrace(f"{place}: {run_id!r} cannot name a run")


def _refuse_strays(run: Path) -> None:
    """Refuse files in a run that are no parts of it and that Spark would read with them."""
    os.listdir(run)
    for table in TABLES:
        for path in run.rglob(f"{table}-*.parquet"):
            number = path.stem.removeprefix(f"{table}-")
            is_part = number.isdecimal() and path.name == part_name(table, int(number))
            is_in_place = path.parent.parent == run and path.parent.name.startswith("node=")
            is_hidden = any(name.startswith((".", "_")) for name in path.relative_to(run).parts)
            if not (is_part and is_in_place) and not is_hidden:
                raise BadTrace(f"{path}: is no part of a trace, and lies among them")


def _look_at_file(path: Path, table: str) -> Seen:
    """Refuse a file that is no part of the table; return what it is like."""
    pa, parquet = arrow(), arrow("pyarrow.parquet")
    try:
        with parquet.ParquetFile(path) as file:
            written = file.schema_arrow
            metadata = file.metadata
            _check_schema(path, table, written)
            emptied = _with_nulls(file, table)
            services = set(_services_in(file)) if table in SERVED else set()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadTrace(f"{path}: cannot be read as Parquet: {error}") from error
    if emptied:
        raise BadTrace(f"{path}: column {emptied[0]} has nulls")
    for code in services:  # of another one nothing would be judged
        if code not in SERVICE_BY_CODE:
            raise BadTrace(f"{path}: service {code} is not one of any engine")
    has_other_services = not services <= set(RING_CODES)
    if not metadata.num_row_groups:
        return Seen(False, has_other_services)
    columns = metadata.row_group(0)
    wide = {name for name, kind, _ in COLUMNS[table] if kind == "uint64"}
    has_dictionaries = any(
        columns.column(at).path_in_schema in wide and columns.column(at).has_dictionary_page
        for at in range(columns.num_columns)
    )
    return Seen(has_dictionaries, has_other_services)


def _check_schema(path: Path, table: str, written: "Schema") -> None:
    types = {field.name: field.type for field in written}
    for field in arrow().schema(schema(table)):
        if field.name not in types and field.name in LATER:
            continue
        if field.name not in types:
            raise BadTrace(f"{path}: has no column {field.name}")
        if types[field.name] != field.type:
            raise BadTrace(f"{path}: column {field.name} is {types[field.name]}, not {field.type}")


def _services_in(file: "ParquetFile") -> Iterator[int]:
    """Return the least and the greatest code of a service in each stretch of rows."""
    leaves = [file.schema.column(at).path for at in range(len(file.schema))]
    at = leaves.index("service")
    for group in range(file.metadata.num_row_groups):
        known = file.metadata.row_group(group).column(at).statistics
        if known is not None and known.has_min_max:
            yield from (known.min, known.max)
        else:  # nobody wrote it down
            yield from file.read_row_group(group, ["service"]).column(0).to_pylist()


def _with_nulls(file: "ParquetFile", table: str) -> list[str]:
    """Return the columns with nulls in them where none may be.

    Ours are written so that there is no room for one; of others the columns are read.
    """
    written = file.schema_arrow
    doubtful = [
        name
        for name, _, may_be_null in COLUMNS[table]
        if not may_be_null and name in written.names and written.field(name).nullable
    ]
    found: set[str] = set()
    for batch in file.iter_batches(columns=doubtful) if doubtful else ():
        found.update(name for name in doubtful if batch.column(name).null_count)
    return sorted(found)


def _elsewhere(spark: "SparkSession", path: str) -> list[Place]:
    """List the runs at an address that only Spark can read."""
    name = path.rstrip("/")
    below = name if "/run_id=" in name else f"{name}/run_id=*"
    below = below if "/node=" in below else f"{below}/node=*"
    files: dict[str, list[str]] = {folder: [] for folder in _listed(spark, path, below)}
    for file in _listed(spark, path, f"{below}/*.parquet"):
        folder, _, last = file.rpartition("/")
        files[folder].append(last)
    by_base: dict[str, list[tuple[str, str, int]]] = {}
    for folder, names in files.items():
        match = _NODE.fullmatch(folder)
        if match:
            _check_name(match[3], folder)
            parts_among(folder, names)
            whose = (folder, match[3], int(match[4]))
            by_base.setdefault(match[1], []).append(whose)
    if not by_base:
        raise BadTrace(f"{path}: has no run_id=…/node=… in it")
    places = []
    for base, found in by_base.items():
        folders = tuple(folder for folder, _, _ in found)
        whose_all = tuple((run_id, node) for _, run_id, node in found)
        place = Place(base, folders, whose_all)
        has_other_services = _probe(spark, place)
        # Nobody looked at how it is encoded: then the way that is always right.
        places.append(place._replace(has_dictionaries=True, has_other_services=has_other_services))
    return places


def _listed(spark: "SparkSession", path: str, pattern: str) -> list[str]:
    """Return the full names of what a pattern matches."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    jvm = spark.sparkContext._jvm
    context = spark.sparkContext._jsc
    assert jvm is not None
    assert context is not None
    try:
        wanted = jvm.org.apache.hadoop.fs.Path(pattern)
        found = wanted.getFileSystem(context.hadoopConfiguration()).globStatus(wanted)
    except (Py4JJavaError, PySparkException) as error:
        raise BadTrace(f"{path}: cannot be read: {file_trouble(error)}") from error
    return [str(status.getPath().toString()) for status in found or ()]


def _probe(spark: "SparkSession", place: Place) -> bool:
    """Refuse a schema that is not ours; return whether there are services that a ring has not."""
    has_other_services = False
    for table in TABLES:
        read = spark.read.option("pathGlobFilter", f"{table}-*.parquet").option(AS_NAMED, "false")
        rows = read.parquet(*place.folders)
        names = set(rows.columns)
        for name, _, _ in COLUMNS[table]:
            if name not in names and name not in LATER:
                raise BadTrace(f"{place.base}: {table} have no column {name}")
        # Files say in their footers how many nulls a column has, so few are read for this.
        whole = [name for name, _, may_be_null in COLUMNS[table] if not may_be_null]
        emptied = rows.where(" or ".join(f"`{name}` is null" for name in whole)).first()
        if emptied is not None:
            column = next(name for name in whole if emptied[name] is None)
            raise BadTrace(f"{place.base}: {table} have nulls in column {column}")
        if table in SERVED:
            strange = rows.where(_is_none_of(SERVICE_BY_CODE)).first()
            if strange is not None:
                code = strange["service"]
                raise BadTrace(f"{place.base}: {table} have service {code}, of no engine")
            has_other_services |= rows.where(_is_none_of(RING_CODES)).first() is not None
    return has_other_services


def _is_none_of(codes: Iterable[int]) -> str:
    return " and ".join(f"service <> {code}" for code in codes)


def foreign_services(history: "History") -> dict[str, str]:
    """Return which runs have rows of a service that their engine does not have, and what."""
    found: dict[str, str] = {}
    for part in history.parts:
        for table in SERVED:
            rows = getattr(part.trace, table).where(_is_none_of(CODES[part.engine]))
            for row in rows.groupBy("run_id").agg({"service": "min"}).collect():
                found[row[0]] = (
                    f"run {row[0]}: {table} have service {row[1]}, which {part.engine} has not"
                )
    return found


def _refuse_twins(found: Found) -> None:
    """Refuse a node that two places claim to know: they are of different runs, or the same."""
    seen: dict[tuple[str, int], str] = {}
    for place in list(found.places):
        for whose in place.nodes:
            if whose in seen:
                found.refused.append(
                    f"{place.base}: has node {whose[1]} of run {whose[0]}, as {seen[whose]} has: "
                    "two different runs cannot share an id"
                )
                found.places.remove(place)
                break
            seen[whose] = place.base

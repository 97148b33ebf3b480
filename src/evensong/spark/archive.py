"""An archive of Spark's classes, with which Java starts in half the time.

Java reads and checks some twenty thousand classes until Spark has answered a first question. It can
write them down in the form in which it keeps them in memory, and take them from there the next
time. `python -m evensong.spark.archive` does that once, in half a minute and 200 MB; `make` calls
it. A quick session uses the archive if there is one for its Java and its Spark. Java itself refuses
an archive of another build or of jars that have changed since, and goes on without.
"""

import hashlib
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evensong.errors import EvensongError
from evensong.spark.java import Java, find_java, own_directory
from evensong.spark.settings import TINY

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow
    from pyspark.sql import SparkSession

MADE_BY: Final = "an audit"  # an archive that was made by something else is another one
SEEDS: Final = (1, 2)  # of runs with clients, all of which every property is about
AHEAD_OF_TIME: Final = 25  # from this version on, the archive has linked classes and profiles too


def archive_of(java: Java) -> Path:
    """Return where the archive of this Java and the installed Spark is, or would be."""
    import pyspark

    key = f"{java.description}\n{java.home}\n{pyspark.__version__}\n{pyspark.__file__}\n{MADE_BY}"
    name = hashlib.sha256(key.encode()).hexdigest()[:16]
    return own_directory() / f"classes-{name}.archive"


def options_with(java: Java, archive: Path) -> tuple[str, ...]:
    """Return the options by which Java uses the archive."""
    name = "AOTCache" if java.version >= AHEAD_OF_TIME else "SharedArchiveFile"
    return (f"-XX:{name}={archive}",)


def make(java: Java) -> Path:
    """Write the archive, by running Spark once as commands of ours do."""
    from evensong.spark import gateway
    from evensong.spark.session import open_session

    whole = archive_of(java)
    whole.parent.mkdir(parents=True, exist_ok=True)
    option = "AOTCacheOutput" if java.version >= AHEAD_OF_TIME else "ArchiveClassesAtExit"
    # Made elsewhere and renamed when Java has ended well: a half-made archive is never used.
    with tempfile.TemporaryDirectory(dir=whole.parent) as directory:
        made = Path(directory) / "made"
        conf = {
            **TINY,
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": f'"-XX:{option}={made}"',
        }
        spark = open_session("archive", master="local[2]", conf=conf, quick=True)
        _use(spark, Path(directory) / "rows")
        spark.stop()
        gateway.end()
        os.replace(made, whole)
    return whole


def _use(spark: "SparkSession", place: Path) -> None:
    # What is not used here is not in the archive; so a small trace is audited, and reported on.
    from evensong.sim.groups.draw import draw
    from evensong.sim.groups.run import run_recorded
    from evensong.spark.auditing import run_audit
    from evensong.spark.reporting import report_of
    from evensong.trace.parquet import write_trace

    for seed in SEEDS:
        write_trace(run_recorded(draw(seed))[1], place, str(seed))
    found = run_audit(spark, [str(place)])
    report_of(found, [], [])
    found.history.spans.mapInArrow(_as_it_is, found.history.spans.schema).collect()


def _as_it_is(batches: "Iterator[pyarrow.RecordBatch]") -> "Iterator[pyarrow.RecordBatch]":
    yield from batches


def main() -> int:
    """Make the archive if there is none."""
    try:
        java = find_java()
        if not archive_of(java).is_file():
            make(java)
    except (EvensongError, OSError) as error:
        print(f"without an archive of its classes Spark starts slowly: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

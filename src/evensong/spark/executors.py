"""What the Python processes of Spark need: the right interpreter, and this package.

On a local master they are processes of this machine and import what we import. Those of a cluster
get this very package from the driver; what it depends on must be installed there, as
`docs/operating.md` tells.
"""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import PyZipFile

import evensong
from evensong.spark.settings import local_cores

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark import SparkContext


def python(master: str, given: "Mapping[str, str]") -> str:
    """Return the interpreter that executors run: here ours, elsewhere the one that is set there."""
    if local_cores(master) is not None:
        return sys.executable
    return given.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable


def give_package(context: "SparkContext") -> None:
    """Send this package to the executors of a cluster, and have them import that one."""
    # Executors fetch it when their first task comes, so it has to stay as long as we do.
    directory = tempfile.mkdtemp(prefix="evensong-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    archive = Path(directory) / "evensong.zip"
    write_package(archive)
    context.addPyFile(str(archive))


def write_package(archive: Path) -> None:
    """Write this package, compiled, as a file that Python can import from."""
    assert evensong.__file__ is not None
    with PyZipFile(str(archive), "w") as file:
        file.writepy(str(Path(evensong.__file__).parent))

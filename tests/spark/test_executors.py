import subprocess
import sys
from pathlib import Path

import pytest

from evensong.spark import executors


def test_the_package_can_be_imported_from_its_archive(tmp_path: Path) -> None:
    archive = tmp_path / "evensong.zip"
    executors.write_package(archive)
    program = (
        f"import sys; sys.path.insert(0, {str(archive)!r})\n"
        "import evensong, evensong.core.totem.ring, evensong.spark.session\n"
        "print(evensong.__file__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.startswith(str(archive)), done.stderr


def test_executors_here_run_our_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/another")
    assert executors.python("local[2]", {}) == sys.executable


def test_executors_of_a_cluster_run_what_is_set_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert executors.python("yarn", {}) == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/theirs")
    assert executors.python("yarn", {}) == "/usr/bin/theirs"
    given = {"spark.pyspark.python": "/opt/python"}
    assert executors.python("yarn", given) == "/opt/python"

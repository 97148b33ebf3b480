"""The pytest plugin, in a pytest of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import evensong

TEST = """
def test_it(evensong_cluster):
    es = evensong_cluster(3)
    other = evensong_cluster(2, seed=7)
    es.crash(2)
    assert es.seed == {seed}
"""


def run_pytest(directory: Path, seed: int, *options: str) -> str:
    (directory / "test_one.py").write_text(TEST.format(seed=seed), encoding="utf-8")
    words = ["-p", "evensong.testing.plugin", "-p", "no:cacheprovider", *options, "test_one.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(Path(evensong.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def test_clusters_have_the_seed_of_the_command_line(tmp_path: Path) -> None:
    assert "1 passed" in run_pytest(tmp_path, 0)
    assert "1 passed" in run_pytest(tmp_path, 42, "--evensong-seed=42")


def test_a_failure_says_what_the_clusters_were_and_how_to_repeat_it(tmp_path: Path) -> None:
    said = run_pytest(tmp_path, -1, "--evensong-seed=42")
    assert "<cluster of 3, seed 42," in said
    assert "2 is down" in said
    assert "<cluster of 2, seed 7," in said
    assert "repeat: pytest --evensong-seed=42 'test_one.py::test_it'" in said


def test_a_drawn_seed_is_told(tmp_path: Path) -> None:
    said = run_pytest(tmp_path, -1, "--evensong-seed=random")
    assert "repeat: pytest --evensong-seed=" in said


@pytest.mark.parametrize("seed", ["x", ""])
def test_a_seed_that_is_none_is_refused(tmp_path: Path, seed: str) -> None:
    assert "passed" not in run_pytest(tmp_path, 0, f"--evensong-seed={seed}")

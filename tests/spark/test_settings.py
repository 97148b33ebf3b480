import os
from pathlib import Path

import pytest

from evensong.spark import settings as module
from evensong.spark.settings import (
    SMALL_BYTES,
    TINY,
    TINY_BYTES,
    driver_memory,
    for_tiny,
    is_on_loopback,
    is_small,
    local_cores,
    settings,
)


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[*]", len(os.sched_getaffinity(0))),
        ("local[2,4]", 2),
        ("local-cluster[2,1,1024]", None),
        ("spark://host:7077", None),
        ("yarn", None),
    ],
)
def test_a_master_has_cores_here_or_is_a_cluster(master: str, cores: int | None) -> None:
    assert local_cores(master) == cores


@pytest.mark.parametrize(
    ("master", "is_here"),
    [
        ("local[2]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077", True),
        ("spark://10.0.0.1:7077", False),
        ("yarn", False),
        ("k8s://https://127.0.0.1.example:6443", False),
    ],
)
def test_only_a_master_on_this_machine_binds_to_loopback(master: str, is_here: bool) -> None:
    assert is_on_loopback(master) is is_here
    assert ("spark.driver.bindAddress" in settings("a", master, quick=False, given={})) is is_here


@pytest.mark.parametrize(
    ("total_mib", "memory"), [(1500, "1024m"), (6000, "3000m"), (500_000, "8192m")]
)
def test_spark_gets_half_of_the_memory_within_bounds(total_mib: int, memory: str) -> None:
    assert driver_memory(total_mib) == memory


@pytest.mark.parametrize(("limit", "is_less"), [("536870912\n", True), ("max\n", False)])
def test_a_container_has_less_memory_than_its_machine(
    limit: str, is_less: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CGROUP_LIMIT", tmp_path / "none")
    machine = module.memory_mib()
    (tmp_path / "limit").write_text(limit)
    monkeypatch.setattr(module, "CGROUP_LIMIT", tmp_path / "limit")
    assert module.memory_mib() == (512 if is_less else machine)


def test_partitions_fit_the_cores() -> None:
    assert settings("a", "local[3]", quick=True, given={})["spark.sql.shuffle.partitions"] == "3"
    assert settings("a", "local[3]", quick=False, given={})["spark.sql.shuffle.partitions"] == "12"
    assert "spark.sql.shuffle.partitions" not in settings("a", "yarn", quick=False, given={})


def test_only_tiny_data_here_are_computed_without_compiling_plans() -> None:
    assert for_tiny(TINY_BYTES, "local[2]") == TINY
    assert for_tiny(TINY_BYTES + 1, "local[2]") == {}
    assert for_tiny(None, "local[2]") == {}
    assert for_tiny(1, "spark://host:7077") == {}


def test_only_small_data_start_quickly() -> None:
    sizes = (0, SMALL_BYTES, SMALL_BYTES + 1, None)
    assert [is_small(size) for size in sizes] == [True, True, False, False]


def test_what_is_given_wins() -> None:
    given = {"spark.driver.memory": "3g", "spark.ui.enabled": "true", "spark.x": "y"}
    wanted = settings("a", "local", quick=True, given=given)
    assert given.items() <= wanted.items()


def test_only_quick_work_forgoes_the_second_compiler() -> None:
    key = "spark.driver.defaultJavaOptions"
    assert "TieredStopAtLevel=1" in settings("a", "local", quick=True, given={})[key]
    assert "TieredStopAtLevel" not in settings("a", "local", quick=False, given={})[key]


def test_the_log_is_configured_by_a_file_of_ours() -> None:
    assert module.log_configuration().is_file()
    options = settings("a", "local", quick=True, given={})["spark.driver.defaultJavaOptions"]
    assert module.log_configuration().as_uri() in options

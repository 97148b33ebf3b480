from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# Tests are the same on every machine and at every hour: no example is drawn by chance or by clock.
settings.register_profile("evensong", derandomize=True, deadline=None)
settings.load_profile("evensong")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--net",
        action="store_true",
        help="collect tests/net too, which takes root and minutes",
    )
    parser.addoption(
        "--cluster",
        action="store_true",
        help="collect tests/cluster too, which starts a cluster of Spark on this machine",
    )
    parser.addoption(
        "--rewrite-goldens",
        action="store_true",
        help="write the stories of tests/scenarios anew; review them as a diff",
    )
    parser.addoption(
        "--hostile-frames",
        type=int,
        default=100_000,
        help="how many hostile frames tests/core/totem/test_hostile.py throws at the cores",
    )
    parser.addoption(
        "--hostile-datagrams",
        type=int,
        default=20_000,
        help="how many hostile datagrams tests/daemon/test_hostile.py throws at a daemon",
    )
    parser.addoption(
        "--hostile-requests",
        type=int,
        default=20_000,
        help="how many hostile frames tests/daemon/test_hostile_clients.py throws at a daemon",
    )
    parser.addoption(
        "--state-mib",
        type=int,
        default=8,
        help="how large a state tests/client/test_state_transfer.py hands to who joins",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    name = collection_path.name
    is_left_out = name in ("net", "cluster") and not config.getoption(f"--{name}")
    return True if is_left_out else None


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # A session takes seconds to start and a gigabyte. With `--dist loadgroup` one worker has all
    # tests that are about Spark, and so starts the only one.
    for item in items:
        if item.nodeid.startswith("tests/spark/") or "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """One session for all tests of a process; commands called in this process use it too."""
    from evensong.spark.session import open_session

    conf = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
    session = open_session("tests", master="local[2]", conf=conf, quick=True)
    yield session
    session.stop()

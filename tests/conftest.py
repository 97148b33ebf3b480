from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

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
        "--browser",
        action="store_true",
        help="collect tests/browser too, which takes a Chromium",
    )
    parser.addoption(
        "--pictures",
        metavar="DIR",
        help="where tests/browser leaves pictures of what it saw",
    )
    parser.addoption(
        "--page",
        metavar="FILE",
        help="the report that tests/browser opens (default: a small one made by hand)",
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
        help="how many hostile frames test_hostile.py of each engine throws at the cores",
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
    is_left_out = name in ("net", "cluster", "browser") and not config.getoption(f"--{name}")
    return True if is_left_out else None


# Tests that use a session of Spark, which takes seconds to start and a gigabyte. They are half of
# all there is to do, so that those which start a Spark of their own are not among them.
ON_SPARK = (
    "tests/spark/",
    "tests/cli/test_audit.py",
    "tests/cli/test_campaign.py",
    "tests/cli/test_report.py",
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "Scheduling | None":
    # With `--dist loadgroup` one worker has all tests on Spark and starts the only session, first
    # of all. Marks would do it if pytest-xdist could rename the tests of pytest 9; it cannot.
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class OneSession(LoadGroupScheduling):  # type: ignore[misc] # it ships no types
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if nodeid.startswith(ON_SPARK) else nodeid

    return OneSession(config, log)


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """One session for all tests of a process; commands called in this process use it too."""
    from evensong.spark.gateway import LOG
    from evensong.spark.session import open_session
    from evensong.spark.settings import TINY

    conf = {**TINY, "spark.driver.memory": "1g"}
    session = open_session("tests", master="local[2]", conf=conf, quick=True)
    yield session
    session.stop()
    LOG.let_go()  # tests that fail on purpose would leave it behind

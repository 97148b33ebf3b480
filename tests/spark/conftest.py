"""One session of Spark for all tests of a process.

A session takes seconds and a gigabyte. Every test below this directory, and every other one that
takes the fixture `spark`, belongs to one group, which pytest-xdist gives to a single worker.
"""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from evensong.spark.session import open_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    conf = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
    session = open_session("tests", master="local[2]", conf=conf, quick=True)
    yield session
    session.stop()

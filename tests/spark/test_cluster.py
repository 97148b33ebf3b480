"""A master is looked at before Spark starts; tests/cluster has what takes a cluster."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from evensong.cli.command import EXIT_UNREACHABLE, EXIT_USAGE
from evensong.errors import BadRequest, SparkUnavailable
from evensong.spark.cluster import check_master


@pytest.fixture
def deaf() -> str:
    """Return an address at which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{one.getsockname()[1]}"


@pytest.mark.parametrize("master", ["foo", "http://head", "spark//head:1", "local[2", ""])
def test_what_is_no_master_is_refused(master: str) -> None:
    with pytest.raises(BadRequest, match=r"is none of local, local\[CORES\], spark://HOST:PORT"):
        check_master(master)


@pytest.mark.parametrize("address", ["head", "head:", ":7077", "head:port", "head:70770"])
def test_an_address_without_host_or_port_is_refused(address: str) -> None:
    with pytest.raises(BadRequest, match="is not HOST:PORT"):
        check_master(f"spark://{address}")


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2, 3]", "yarn", "k8s://https://h"])
def test_what_only_spark_can_find_is_left_to_it(master: str) -> None:
    check_master(master)


def test_a_master_that_is_not_there_is_told_at_once(deaf: str) -> None:
    with pytest.raises(SparkUnavailable, match=rf"answers at spark://{deaf} \({deaf}: Conn.*ref"):
        check_master(f"spark://{deaf}")


def test_one_of_several_masters_is_enough(deaf: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master(f"spark://{deaf},127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize(
    ("master", "code"), [("foo", EXIT_USAGE), ("spark://{deaf}", EXIT_UNREACHABLE)]
)
def test_a_command_ends_in_a_sentence(master: str, code: int, deaf: str, tmp_path: Path) -> None:
    (tmp_path / "run_id=x").mkdir()
    words = ["audit", str(tmp_path), "--master", master.format(deaf=deaf)]
    done = subprocess.run(
        [sys.executable, "-m", "evensong", *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("evensong: ")

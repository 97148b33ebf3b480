"""What is asked over the control socket of one real daemon."""

import base64
from pathlib import Path

import pytest

from evensong.errors import BadRequest
from tests.daemon.local import LocalCluster, wait_for


def test_a_smaller_packet_takes_smaller_messages(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1, extra="packet = 1000") as cluster:
        cluster.start()
        cluster.wait_for_ring()
        largest = 1_286 - 452
        with pytest.raises(BadRequest, match=f"payloads: at most {largest} bytes each; got"):
            cluster.ask(1, do="send", payloads=[base64.b64encode(bytes(largest + 1)).decode()])
        cluster.ask(1, do="send", payloads=[base64.b64encode(bytes(largest)).decode()])
        wait_for("delivery", lambda: cluster.status(1)["delivered"] == 1)
        assert cluster.status(1)["send_errors"] == {}


def test_a_request_brings_so_many_messages_and_no_more(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with pytest.raises(BadRequest, match="payloads: at most 10000 at once; got 10001"):
            cluster.ask(1, do="send", payloads=[""] * 10_001)
        assert cluster.ask(1, do="send", payloads=[""] * 10_000)["submitted"] == 10_000

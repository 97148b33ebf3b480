"""The names of `evensong.testing`, and what loading it costs."""

import subprocess
import sys

import pytest

from evensong import testing
from evensong.testing import Client, Cluster, Message, Replica, cluster


def test_the_names_are_those_that_are_declared() -> None:
    assert sorted(testing.__all__) == ["Client", "Cluster", "Message", "Replica", "cluster"]
    assert isinstance(cluster(1), Cluster)
    assert isinstance(cluster(1).client(1), Client)
    assert {Message.__name__, Replica.__name__} == {"Message", "Replica"}
    with pytest.raises(AttributeError, match="has no attribute 'clutter'"):
        testing.clutter  # noqa: B018 - what is asked for is the point


def test_loading_the_plugin_loads_no_simulator() -> None:
    script = "import sys, evensong.testing.plugin; print('evensong.sim.world' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"

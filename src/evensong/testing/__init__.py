"""For tests of programs that use evensong: a whole cluster in one process, on virtual time.

See docs/testing.md. The pytest plugin is in `evensong.testing.plugin`; pytest loads it wherever
evensong is installed, so the names here are loaded when they are first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evensong.client.message import Message
    from evensong.client.replica import Replica
    from evensong.testing.client import Client
    from evensong.testing.simulated import Cluster, cluster

__all__ = ["Client", "Cluster", "Message", "Replica", "cluster"]

_HOMES = {
    "Client": "evensong.testing.client",
    "Cluster": "evensong.testing.simulated",
    "Message": "evensong.client.message",
    "Replica": "evensong.client.replica",
    "cluster": "evensong.testing.simulated",
}


def __getattr__(name: str) -> object:
    """Load a name from where it is defined."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found

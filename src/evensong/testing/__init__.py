"""For tests of programs that use evensong: a whole cluster in one process, on virtual time.

See docs/testing.md. The pytest plugin is in `evensong.testing.plugin`; pytest loads it wherever
evensong is installed, so the names here are loaded when they are first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evensong.testing.client import Client, Message, Replica
    from evensong.testing.simulated import Cluster, cluster

__all__ = ["Client", "Cluster", "Message", "Replica", "cluster"]


def __getattr__(name: str) -> object:
    """Load a name from where it is defined."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "simulated" if name in ("Cluster", "cluster") else "client"
    found: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found

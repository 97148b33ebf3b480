"""For tests of programs that use evensong: a whole cluster in one process, on virtual time.

See docs/testing.md. The pytest plugin is in `evensong.testing.plugin`.
"""

from evensong.testing.client import Client, Message, Replica
from evensong.testing.cluster import Cluster, cluster

__all__ = ["Client", "Cluster", "Message", "Replica", "cluster"]

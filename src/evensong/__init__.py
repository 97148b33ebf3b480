"""evensong: group communication with extended virtual synchrony.

Names are loaded when they are first used, so that importing the package costs next to nothing.
`sync` is the library for programs without asyncio; docs/library.md tells of both.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evensong import sync
    from evensong.client.connection import Connection, Group, Receipt, connect
    from evensong.client.flights import Held
    from evensong.client.message import Message, MessageId, Service
    from evensong.client.replica import Policy, Replica
    from evensong.client.streams import Event
    from evensong.core.groups.events import Cause, MemberId, OrderId, View
    from evensong.errors import (
        AlreadyMember,
        BadAddress,
        BadName,
        BadRequest,
        BadSettings,
        CannotStart,
        ConnectionClosed,
        ConnectionLost,
        EvensongError,
        NotMember,
        NotOffered,
        OutcomeUnknown,
        Refused,
        TooLarge,
        Unreachable,
    )
    from evensong.node import Node

__all__ = [
    "AlreadyMember",
    "BadAddress",
    "BadName",
    "BadRequest",
    "BadSettings",
    "CannotStart",
    "Cause",
    "Connection",
    "ConnectionClosed",
    "ConnectionLost",
    "EvensongError",
    "Event",
    "Group",
    "Held",
    "MemberId",
    "Message",
    "MessageId",
    "Node",
    "NotMember",
    "NotOffered",
    "OrderId",
    "OutcomeUnknown",
    "Policy",
    "Receipt",
    "Refused",
    "Replica",
    "Service",
    "TooLarge",
    "Unreachable",
    "View",
    "__version__",
    "connect",
    "sync",
]

__version__ = "0.1.0"

_HOMES = {
    "evensong.client.connection": ("Connection", "Group", "Receipt", "connect"),
    "evensong.client.flights": ("Held",),
    "evensong.client.message": ("Message", "MessageId", "Service"),
    "evensong.client.replica": ("Policy", "Replica"),
    "evensong.client.streams": ("Event",),
    "evensong.node": ("Node",),
    "evensong.core.groups.events": ("Cause", "MemberId", "OrderId", "View"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # for a type checker, a name that is not above is an error

    def __getattr__(name: str) -> object:
        """Load a public name from where it is defined."""
        from importlib import import_module

        if name == "sync":
            return import_module("evensong.sync")
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found: object = getattr(import_module(_HOME_OF.get(name, "evensong.errors")), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        """Name what there is, loaded or not."""
        return __all__

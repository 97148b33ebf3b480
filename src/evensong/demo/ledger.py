"""A ledger that every member keeps for itself: what the demonstration replicates.

An entry is a message; its identity is the message's, so an entry is never counted twice. Sides that
were apart have different entries when they meet: all of them are right, so a merge is their union.
"""

import json
from hashlib import blake2b
from typing import Final, NamedTuple, final


class Entry(NamedTuple):
    """So much moved from one account to another."""

    origin: str
    target: str
    amount: int

    def encode(self) -> bytes:
        """Lay an entry out as a message."""
        return json.dumps(self).encode()


def decode_entry(payload: bytes) -> Entry:
    """Read an entry off a message."""
    return Entry(*json.loads(payload))


@final
class Ledger:
    """One replica: entries by the identity of the message that made them."""

    def __init__(self) -> None:
        self.entries: Final[dict[str, Entry]] = {}
        self.restored = 0  # how often it got the state from somebody,
        self.merged = 0  # and how often from several sides

    def apply(self, message_id: str, entry: Entry) -> None:
        """Take in an entry."""
        self.entries[message_id] = entry

    def balances(self) -> dict[str, int]:
        """Return what each account has; they sum up to nothing, for money only moves."""
        balances: dict[str, int] = {}
        for origin, target, amount in self.entries.values():
            balances[origin] = balances.get(origin, 0) - amount
            balances[target] = balances.get(target, 0) + amount
        return dict(sorted(balances.items()))

    def digest(self) -> str:
        """Return a short name of the content: equal ledgers have equal names."""
        return blake2b(self.snapshot(), digest_size=4).hexdigest()

    # What the library asks of a replica

    def snapshot(self) -> bytes:
        """Return the state."""
        return json.dumps(self.entries, sort_keys=True).encode()

    def restore(self, snapshot: bytes) -> None:
        """Replace the state."""
        self.restored += 1
        self._replace([snapshot])

    def merge(self, snapshots: list[bytes]) -> None:
        """Replace the state by that of several sides together."""
        self.merged += 1
        self._replace(snapshots)

    def _replace(self, snapshots: list[bytes]) -> None:
        self.entries.clear()
        for snapshot in snapshots:
            for message_id, entry in json.loads(snapshot).items():
                self.entries[message_id] = Entry(*entry)

"""Messages whose ids their program has chosen, so that it can send one again and be recognised.

A frame with the flag NAMED holds such messages only: each begins with its id's length, one byte,
and the id. Daemons do not look at it.
"""

from collections.abc import Sequence
from typing import Final

from evensong.client.dialogue import Dialogue
from evensong.client.flights import Flight
from evensong.core.groups.frame import NAMED
from evensong.errors import BadName

ID_BYTES_MAX: Final = 255


def send_named(
    dialogue: Dialogue, to: str | Sequence[str], payload: bytes, flags: int, chosen: str
) -> tuple[Flight, int]:
    """Send a message with an id of one's own."""
    name = _encode(chosen)
    body = bytes((len(name),)) + name + payload
    flight, index = dialogue.send(to, body, flags | NAMED)
    flight.chosen[index] = chosen
    return flight, index


def _encode(chosen: object) -> bytes:
    name = chosen.encode(errors="replace") if isinstance(chosen, str) else b""
    if not 0 < len(name) <= ID_BYTES_MAX or name.decode() != chosen:
        raise BadName(f"an id is 1 to {ID_BYTES_MAX} bytes of text, not {chosen!r}")
    return name

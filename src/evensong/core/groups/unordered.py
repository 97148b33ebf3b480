"""What is not ordered: CAUSAL and BASIC packets, where the engine has them. They have no places.

Views have places, and what is CAUSAL is still on the same side of each for all who go together. A
wish is SAFE there (sendqueue.py). When it is delivered everybody has spoken after it; so whatever
does not follow it is here and was delivered before it, unless it waits for something that is
ordered behind the wish, and then it does so everywhere. Whatever follows it waits for it. A wish
without a place would be at another place for everybody: it is dropped.

What is BASIC waits for nothing below. It may overtake what its sender announced or was told, so it
brings along all that it refers to:

    AS_OF, then frames of kind WHOLE, each behind the SETs of its destination        control.py

AS_OF says how many changes the sender's directory had seen. The packet waits until this directory
has seen as many: so whoever is a member by what the sender was shown is one when it comes. It may
come to one daemon before a later change, and to another behind it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from evensong.core.groups.control import AS_OF, AsOf, SetPart, decode_control
from evensong.core.groups.events import MemberId
from evensong.core.groups.frame import CONTROL, HEADER_SIZE, WHOLE
from evensong.core.groups.limits import GROUPS_MAX
from evensong.core.groups.packet import FrameAt
from evensong.core.ids import ProcessorId
from evensong.errors import MalformedFrame


class BasicFrame(NamedTuple):
    """A frame of a BASIC packet, with its destination."""

    sender: MemberId
    names: tuple[str, ...]
    flags: int
    first_no: int
    places: int
    frame: bytes


def is_basic(payload: bytes, frame: FrameAt) -> bool:
    """Whether a packet that begins with this frame is one of these."""
    kind, _, _, _, _, _, length, at = frame
    return kind == CONTROL and length > 0 and payload[at] == AS_OF


def read_basic(
    sender: ProcessorId, incarnation: int, payload: bytes, frames: Sequence[FrameAt]
) -> tuple[int, list[BasicFrame]]:
    """Return as of which change a packet is, and its frames."""
    as_of = -1
    found: list[BasicFrame] = []
    begun: dict[tuple[int, int], tuple[str, ...]] = {}
    sets: dict[tuple[int, int], tuple[MemberId, tuple[str, ...]]] = {}
    for kind, flags, session, first_no, group_set, places, length, at in frames:
        key = (session, group_set)
        if kind == WHOLE:
            if key not in sets:
                raise MalformedFrame("basic: to a set that it does not bring")
            frame = payload[at - HEADER_SIZE : at + length]
            found.append(BasicFrame(*sets[key], flags, first_no, places, frame))
            continue
        control = decode_control(payload[at : at + length]) if kind == CONTROL else None
        if isinstance(control, AsOf) and as_of < 0:
            as_of = control.counter
        elif isinstance(control, SetPart):
            names = begun.pop(key, ()) + control.names
            if len(names) > GROUPS_MAX:
                raise MalformedFrame("set: cannot be")
            if control.is_end:
                sets[key] = (MemberId(sender, incarnation, session, control.user), names)
            else:
                begun[key] = names
        else:
            raise MalformedFrame("basic: what needs a place, or company")
    return as_of, found

"""Many messages, sent as far as there is room, again and again until all are sent."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, final

from evensong.client.dialogue import Dialogue
from evensong.client.message import FLAGS_OF, Service
from evensong.client.packing import as_bytes, pack
from evensong.errors import NotOffered, OutcomeUnknown, Refused

if TYPE_CHECKING:
    from evensong.client.flights import Flight


ONLY_BYTES: Final = {bytes}


def flags_of(service: object) -> int:
    """Return how a frame says its service; what is none is refused, since it might mean safe."""
    if not isinstance(service, Service):
        names = ", ".join(map(str, Service))
        raise NotOffered(f"service is one of {names}, not {service!r}")
    return FLAGS_OF[service]


@final
class Consignment:
    """Messages on their way from a program into frames."""

    __slots__ = ("_dialogue", "_flags", "_frames", "_to", "flights")

    def __init__(
        self,
        dialogue: Dialogue,
        to: str | Sequence[str],
        payloads: Sequence[bytes],
        service: Service,
    ) -> None:
        bodies = list(payloads)
        if {*map(type, bodies)} != ONLY_BYTES:  # the usual case, without a call for each
            bodies = list(map(as_bytes, bodies))
        if not bodies:
            raise Refused("there is nothing to send")
        dialogue.check_size(max(map(len, bodies)))
        dialogue.destination(to)  # refuses what cannot be one before anything is sent
        self._dialogue: Final = dialogue
        self._to: Final = to
        self._flags: Final = flags_of(service)
        self._frames: Final = list(pack(bodies, dialogue.frame_max))
        self._frames.reverse()
        self.flights: Final[list[Flight]] = []

    def go_on(self) -> bool:
        """Send while there is room; return whether all is sent."""
        dialogue = self._dialogue
        if self.flights and dialogue.ended is not None:
            raise OutcomeUnknown(self.flights[0].id_of(0), str(dialogue.ended))
        while self._frames:
            if not dialogue.can_send():
                return False
            set_no = dialogue.destination(self._to)
            self.flights.append(dialogue.send_frame(set_no, self._frames.pop(), self._flags))
        return True

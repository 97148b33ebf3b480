"""Messages as a program sees them, cut from the frames in which they came; its own as it sent them.

A message is three references: its payload, what it has in common with all messages of its frame,
and which of them it is. Everything else is worked out when it is asked for, so that a program that
looks at payloads alone pays for payloads alone. Messages come by the hundred thousand: a `Struct`
is made by one call of C, and the collector of cycles need not look at it, since it is in none.
"""

from collections.abc import Sequence
from enum import Enum
from itertools import count, repeat
from typing import Final, NamedTuple, final

from msgspec import Struct

from evensong.client.packing import part_names, unpack
from evensong.core.groups.events import Destination, MemberId, OrderId, SessionId
from evensong.core.groups.frame import BASIC, CAUSAL, NAMED, SAFE, Head
from evensong.core.ids import ProcessorId, RingId


class Service(Enum):
    """What is promised of a message when it is delivered.

    The first four are one on a ring: a message is delivered in the one total order, when everything
    before it has been. On Transis `BASIC` is delivered when it comes, `CAUSAL` and `FIFO` when all
    is that their sender knew of; they have no place in the order. `SAFE` waits until every member
    of the configuration is known to hold it, and so does everything ordered after it.
    """

    BASIC = "basic"
    FIFO = "fifo"
    CAUSAL = "causal"
    AGREED = "agreed"
    SAFE = "safe"


ASKED: Final = SAFE | CAUSAL | BASIC  # of a frame's flags: the service
SERVICE_OF: Final = {
    0: Service.AGREED,
    SAFE: Service.SAFE,
    CAUSAL: Service.CAUSAL,
    BASIC: Service.BASIC,
}
FLAGS_OF: Final = {
    **{service: flags for flags, service in SERVICE_OF.items()},
    Service.FIFO: CAUSAL,  # the least that keeps a sender's order
}


class MessageId(NamedTuple):
    """A message's identity: fixed when it is sent, the same for every receiver, never used twice.

    >>> str(MessageId(daemon=3, incarnation=17, session=5, number=42))
    '3.17.5.42'
    """

    daemon: ProcessorId
    incarnation: int
    session: SessionId
    number: int

    def __str__(self) -> str:
        return ".".join(map(str, self))


@final
class Delivery:
    """A frame as it was delivered: what its messages have in common."""

    __slots__ = (
        "conf_id",
        "content",
        "count",
        "destination",
        "first_no",
        "flags",
        "ids",
        "is_named",
        "order",
        "reduced",
    )

    def __init__(
        self,
        destination: Destination,
        order: OrderId | None,
        conf_id: RingId,
        head: Head,
        content: bytes | Sequence[bytes],
        *,
        reduced: bool,
    ) -> None:
        self.destination: Final = destination
        self.order: Final = order  # of the first message; None: they are not ordered
        self.conf_id: Final = conf_id  # the configuration of delivery
        self.content: Final = content  # the frame, or its messages if they are here already
        self.reduced: Final = reduced
        self.first_no: Final = head.first_no
        self.count: Final = head.places
        self.flags: Final = head.flags
        self.is_named: Final = bool(head.flags & NAMED)
        self.ids: tuple[str, ...] = ()  # that the sender chose, if it did

    def messages(self) -> "list[Message]":
        """Cut the frame apart; a frame whose table is false raises `MalformedFrame`."""
        payloads = self.content
        if isinstance(payloads, bytes):
            payloads = unpack(payloads, self.count)
        if self.is_named:
            self.ids, payloads = part_names(payloads)
        return list(map(Message, payloads, repeat(self), count()))


@final
class Message(Struct, frozen=True, eq=False, gc=False):
    """A message, at its place in the order if it has one.

    - `payload`: what was sent, as bytes; `sender`: who sent it
    - `groups`: all groups and private names that it was sent to
    - `order`: its place, the same for every receiver; it rises from message to message. None if
      it is not ordered: BASIC, FIFO and CAUSAL on Transis
    - `id`: its identity, which the sender knows by its receipt; text if the sender chose it
    - `service`: what is promised of it: `SAFE` or `AGREED`; on Transis also `CAUSAL` or `BASIC`
    - `reduced`: whether what is promised covers only the members of the last transitional view
    - `place`: where it was delivered, in the way in which views name their places; None as `order`
    """

    payload: bytes
    _delivery: Delivery
    _index: int  # of the delivery's messages

    @property
    def sender(self) -> MemberId:
        """Who sent it; as text, the private name at which the sender is reached."""
        return self._delivery.destination.sender

    @property
    def groups(self) -> tuple[str, ...]:
        """All groups and private names that it was sent to."""
        return self._delivery.destination.groups

    @property
    def order(self) -> OrderId | None:
        """Its place: the same for every receiver; it rises from message to message.

        None if it is not ordered: BASIC, FIFO and CAUSAL on Transis.
        """
        order = self._delivery.order
        return OrderId(order[0], order[1], order[2] + self._index) if order is not None else None

    @property
    def id(self) -> MessageId | str:
        """Its identity, known to the sender by its receipt; text if the sender chose it."""
        if self._delivery.ids:
            return self._delivery.ids[self._index]
        sender = self.sender
        number = self._delivery.first_no + self._index
        return MessageId(sender.daemon, sender.incarnation, sender.session, number)

    @property
    def service(self) -> Service:
        """What is promised of it: at least what its sender asked for."""
        return SERVICE_OF[self._delivery.flags & ASKED]

    @property
    def reduced(self) -> bool:
        """Whether what is promised covers only the members of the last transitional view."""
        return self._delivery.reduced

    @property
    def place(self) -> tuple[RingId, int, int] | None:
        """Where it was delivered, in the way in which views name their places; None as `order`."""
        order = self._delivery.order
        if order is None:
            return None
        return self._delivery.conf_id, order.seq, order.sub + self._index

    def __repr__(self) -> str:
        shown = self.payload if len(self.payload) <= 40 else self.payload[:37] + b"..."
        return f"<message {self.id} from {self.sender} to {' '.join(self.groups)}: {shown!r}>"

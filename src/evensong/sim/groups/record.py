"""Writes down what the sessions of a simulated daemon are told and what they say, for the trace."""

from typing import Final, final

from evensong.core.effects import Sent
from evensong.core.groups.events import (
    Closed,
    Delivered,
    Left,
    Reconfigured,
    SessionEvent,
    SessionId,
    ViewChange,
    Welcome,
)
from evensong.core.groups.frame import HEADER_SIZE, SELF_DISCARD, decode_head
from evensong.sim.history import FrameId, GroupDelivery, GroupSend, Life
from evensong.trace import groups
from evensong.trace.groups import UNKNOWN, Destinations, Sayings, To


@final
class Recorder:
    """Fills the group rows of one life."""

    __slots__ = ("_conf_no", "_destinations", "_life", "_sayings")

    def __init__(self, life: Life) -> None:
        self._life: Final = life
        self._sayings: Final = Sayings()
        self._destinations: Final = Destinations()
        self._conf_no = -1  # of the configuration that sessions have been told of

    def send(self, sent: Sent, now: int) -> None:
        """Note the frames that end in packets at their first broadcast."""
        life = self._life
        for said in self._sayings.find(sent):
            life.said.append(
                GroupSend(
                    said.session,
                    said.first_no,
                    sent.ring_id,
                    said.seq,
                    len(life.confs) - 1,
                    self._told(said.session),
                    groups.service_of(said.flags),
                    self._number(said.to, now) if said.to is not None else UNKNOWN,
                    said.size,
                    said.digest,
                    now,
                    said.messages,
                )
            )

    def tell(self, events: list[SessionEvent], now: int) -> None:
        """Note what sessions are told, in order."""
        for event in events:
            if isinstance(event, Delivered):
                self._hear(event, now)
            elif isinstance(event, ViewChange):
                at = [self._told(session) for session in event.sessions]
                aux = groups.view_aux(event.view, self._conf_no, event.sessions, at)
                self._life.note("gview", now, groups.CAUSES[event.view.cause], aux)
            elif isinstance(event, Left):
                aux = groups.left_aux(event, self._conf_no, self._told(event.session))
                self._life.note("left", now, aux=aux)
            elif isinstance(event, Reconfigured):
                self._conf_no += 1
            elif isinstance(event, Welcome):
                self._life.note("open", now, aux=groups.open_aux(event))
            elif isinstance(event, Closed):
                self._sayings.forget(event.session)

    def close(self, session: SessionId, why: str, now: int) -> None:
        """Note that a session ends: it is told nothing more."""
        aux = groups.close_aux(session, self._told(session))
        self._life.note("close", now, why, aux)

    def _hear(self, event: Delivered, now: int) -> None:
        head = decode_head(event.frame)
        sender = event.destination.sender
        ring_id, seq, sub = event.order or (event.conf_id, 0, 0)
        to = To(event.destination.groups, bool(head.flags & SELF_DISCARD))
        row = GroupDelivery(
            FrameId(*sender[:3], head.first_no),
            ring_id,
            seq,
            sub,
            self._conf_no,
            groups.service_of(head.flags),
            event.reduced,
            self._number(to, now),
            len(event.frame) - HEADER_SIZE,
            groups.digest_of(event.frame),
            now,
            head.places,
        )
        for session in event.sessions:
            self._life.heard.setdefault(session, []).append(row)

    def _number(self, to: To, now: int) -> int:
        number = self._destinations.find(to)
        if number is None:
            number = self._destinations.add(to)
            self._life.note("dest", now, aux=to.aux(number))
        return number

    def _told(self, session: SessionId) -> int:
        return len(self._life.heard.get(session, ()))

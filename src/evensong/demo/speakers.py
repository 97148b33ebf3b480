"""A steady load on daemons: clients that say something, wait until it is delivered, and go on."""

import base64
import threading
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple, final

from evensong.daemon.control import Conversation
from evensong.daemon.driver import clock
from evensong.errors import BadRequest, Unreachable

ANSWER_S: Final = 60.0  # how long a delivery may take, view changes included
BODY: Final = base64.b64encode(b"Magnificat anima mea Dominum. " * 6).decode()
BATCHES: Final = {"agreed": 4, "safe": 2}  # messages at a time
PERIOD_S: Final = 0.02  # between two batches, with `NODES` daemons
NODES: Final = 5


class Wait(NamedTuple):
    """How long a client waited until its own daemon had delivered what it said."""

    service: str
    began_us: int
    took_us: int


@final
class _Speaker(threading.Thread):
    """One client: messages of one service to one daemon."""

    def __init__(
        self, state: Path, service: str, period_s: float, waits: list[Wait], over: threading.Event
    ) -> None:
        super().__init__(name=f"{state.name} {service}", daemon=True)
        self._state: Final = state
        self._service: Final = service
        self._period_s: Final = period_s
        self._waits: Final = waits
        self._over: Final = over
        self.answers = 0

    def run(self) -> None:
        """Speak until it is over, or until the daemon is gone."""
        request = {
            "do": "send",
            "service": self._service,
            "payloads": [BODY] * BATCHES[self._service],
            "wait": True,
        }
        try:
            with closing(Conversation(self._state, ANSWER_S)) as conversation:
                while not self._over.is_set():
                    began_us = clock()
                    delivered_us = conversation.ask(request)["delivered_at_us"]
                    assert isinstance(delivered_us, int)
                    self._waits.append(Wait(self._service, began_us, delivered_us - began_us))
                    self.answers += 1
                    spent_s = (clock() - began_us) / 1_000_000
                    self._over.wait(max(0.0, self._period_s - spent_s))
        except (Unreachable, BadRequest):
            return  # it was killed or stops; whoever wants to know looks at the daemon


@final
class Speakers:
    """The clients of all daemons. The load is the same however many daemons share it."""

    def __init__(self, nodes: int) -> None:
        self.waits: Final[list[Wait]] = []
        self._period_s: Final = PERIOD_S * nodes / NODES
        self._over: Final = threading.Event()
        self._threads: Final[list[_Speaker]] = []

    def join(self, state: Path) -> None:
        """Let clients speak to a daemon."""
        for service in BATCHES:
            speaker = _Speaker(state, service, self._period_s, self.waits, self._over)
            self._threads.append(speaker)
            speaker.start()

    def heard(self) -> int:
        """Return how many messages their senders have heard so far."""
        return sum(BATCHES[wait.service] for wait in list(self.waits))

    def answers(self) -> dict[str, int]:
        """Return how often each client whose daemon is there has been answered."""
        return {one.name: one.answers for one in self._threads if one.is_alive()}

    def hush(self) -> None:
        """Let everybody finish."""
        self._over.set()

    def wait(self) -> None:
        """Return when all have: their last messages are delivered, or their daemons are gone."""
        self.hush()
        for thread in self._threads:
            thread.join()

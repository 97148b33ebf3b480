"""Everything a daemon remembers of itself: the trace, the flight recorder, and who tends them."""

import os
from collections.abc import Callable, Mapping
from typing import Final, final

from evensong.core.engine import TRANSIS, Parameters
from evensong.core.groups.events import SessionEvent
from evensong.core.transis.parameters import Parameters as LansisParameters
from evensong.daemon.converter import Converter, close_leftovers, lock_trace
from evensong.daemon.driver import Driver, Life, clock
from evensong.daemon.flight import Flight
from evensong.daemon.listener import Listener
from evensong.daemon.pace import Pace
from evensong.daemon.sessions import Sessions
from evensong.daemon.settings import Settings
from evensong.daemon.sight import host_id, look_by
from evensong.daemon.spool import Spool, Traced
from evensong.daemon.telling import Telling
from evensong.errors import CannotStart


def traced_limits(parameters: Parameters) -> dict[str, int | str]:
    """Return what the trace tells of the engine: whoever reads it judges by that."""
    if isinstance(parameters, LansisParameters):
        return {"engine": TRANSIS, "w_high": parameters.w_high}
    return {"window_size": parameters.window_size, "messages_max": parameters.messages_max}


@final
class Memory:
    """The trace, unless it is off, and the flight recorder of one life."""

    def __init__(self, settings: Settings, life: Life, say: Callable[[str], None]) -> None:
        host, token_loss_us = host_id(), settings.parameters.patience()
        self.flight: Final = Flight(
            life.incarnation,
            life.boot,
            clock(),
            life.node,
            settings.cluster,
            host,
            token_loss_us,
        )
        self.spool: Spool | None = None
        self.telling: Telling | None = None
        self._converter: Converter | None = None
        self._state: Final = settings.state
        self._lock = -1  # of the directory of the trace
        directory = settings.trace_dir
        if settings.trace == "off":
            return
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = lock_trace(directory)
            close_leftovers(directory)
        except OSError as error:
            raise CannotStart(f"trace_dir: {directory}: {error.strerror}") from None
        traced = Traced(
            settings.cluster,
            *life,
            settings.trace,
            directory,
            host,
            token_loss_us,
            traced_limits(settings.parameters),
        )
        self._converter = Converter(directory, settings.trace_keep, say)
        self.spool = Spool(traced, clock(), say)
        self.telling = Telling(self.spool, clock)
        self.spool.closed = self._converter.want

    def listeners(self) -> list[Listener]:
        """Return who wants to hear what the ring does; the spool comes last and closes it all."""
        heard: list[Listener] = [self.flight]
        if self.spool is not None:
            if self.telling is not None and self.spool.has_rows:
                heard.append(self.telling)
            heard.append(self.spool)
        return heard

    def watch_sessions(self, driver: Driver, sessions: Sessions) -> None:
        """Note what sessions are told before they are told it, and when they end."""
        telling, tell = self.telling, driver.tell
        if telling is None:
            return

        def note_and_tell(events: list[SessionEvent]) -> None:
            telling.tell(events)
            tell(events)

        driver.tell = note_and_tell
        sessions.ended = telling.closed

    def attach(self, driver: Driver, pace: Pace, refused: Callable[[], Mapping[str, int]]) -> None:
        """Let the driver see after what is due, and note what nobody is told of as it happens."""
        self.flight.look = look_by(driver, pace)
        if self.spool is not None:
            self.spool.look = self.flight.look
        alarms = driver.core.engine.alarms()
        driver.expiring.append(lambda now: self.flight.note_timers(alarms, now))
        driver.chores.append(_Observer(self, driver, refused).observe)
        if self.spool is not None:
            driver.timed.append(self.spool)
        if self._converter is not None:
            driver.chores.append(self._converter.tend)

    def close(self) -> None:
        """Write the flight recorder down, and let nothing of this life run on."""
        self.flight.write(self._state)
        if self._converter is not None:
            self._converter.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


@final
class _Observer:
    def __init__(
        self, memory: Memory, driver: Driver, refused: Callable[[], Mapping[str, int]]
    ) -> None:
        self._memory: Final = memory
        self._driver: Final = driver
        self._refused: Final = refused
        self._late = 0

    def observe(self, _: int) -> None:
        """Note what was refused or dropped, and own lateness; about once a second."""
        driver, memory = self._driver, self._memory
        now = clock()  # the turn has recorded events since it began
        lag = driver.lag
        is_late = lag.late != self._late
        self._late = lag.late
        drops = {**self._refused(), **driver.core.engine.drops()}
        for one in (memory.flight, memory.spool):
            if one is not None:
                one.note_drops(drops, now)
                if is_late:
                    one.note_lag(lag.recent_us(now), now)

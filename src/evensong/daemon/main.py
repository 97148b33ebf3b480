"""A daemon from its settings to its end: start, signals, orderly leave.

What it needs is looked at before anything is sent; what is missing is said in one sentence.
"""

import fcntl
import gc
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from types import FrameType
from typing import Final, TextIO, final

from evensong import __version__
from evensong.core.engine import Parameters
from evensong.core.stable import StableRecord
from evensong.core.transis.parameters import Parameters as LansisParameters
from evensong.daemon import lastwords
from evensong.daemon.control import ControlServer
from evensong.daemon.datagrams import Datagrams
from evensong.daemon.doctor import Doctor
from evensong.daemon.driver import Driver, Life
from evensong.daemon.keys import read_keys
from evensong.daemon.listener import Listener
from evensong.daemon.log import Log, summary
from evensong.daemon.observer import Memory
from evensong.daemon.opening import Opener
from evensong.daemon.orders import Orders
from evensong.daemon.pace import Pace
from evensong.daemon.receipts import Receipts
from evensong.daemon.reload import Reload
from evensong.daemon.seal import Key, Sealer
from evensong.daemon.sessions import Access, Sessions
from evensong.daemon.settings import DATAGRAM_MAX, Settings
from evensong.daemon.stable import StableStore
from evensong.daemon.tail import Tail
from evensong.errors import CannotStart, CorruptRecord

LOCK_NAME: Final = "lock"
REPLAY_WINDOW_MIN: Final = 1_024  # counters; at least four windows of messages
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
IGNORED: Final = (signal.SIGUSR1, signal.SIGUSR2)  # of no meaning here, and no reason to die


def read_record(settings: Settings) -> StableRecord:
    """Read the ring's record, or say why this daemon must not start."""
    try:
        return StableStore(settings.state).read()
    except CorruptRecord as error:
        raise CannotStart(
            f"state: {settings.state}: {error}; starting anyway could use a ring id twice. "
            "Restore the directory, or give this machine a new node id and an empty one"
        ) from None
    except OSError as error:
        raise CannotStart(f"state: {settings.state}: {error.strerror}") from None


def next_incarnation(record: StableRecord, wall_ms: int) -> int:
    """Name a life: later than those on record, and than those of a directory that was wiped."""
    return max(record.incarnation + 1, wall_ms)


def lock_state(state: Path) -> int:
    """Keep other daemons out of a state directory for as long as the descriptor is open."""
    try:
        lock = os.open(state / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        raise CannotStart(f"state: {state}: there is no such directory; make it first") from None
    except OSError as error:
        raise CannotStart(f"state: {state}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise CannotStart(f"state: {state}: another daemon uses it") from None
    return lock


def be_realtime() -> None:
    """Run before ordinary work from now on; what this process starts does not.

    The lowest of such priorities: whatever else is real-time here has its reasons.
    """
    try:
        policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))
    except OSError as error:
        raise CannotStart(
            f"realtime: {error.strerror}; it takes root, CAP_SYS_NICE or a limit `rtprio` above 0"
        ) from None


def run(
    reread: Callable[[], Settings], out: TextIO = sys.stderr, *, until_eof: bool = False
) -> int:
    """Run a daemon until it is told to stop; 0 if it left in good order, else 1.

    `reread` returns the settings: now, and whenever they are to be reloaded.
    """
    settings = reread()
    with ExitStack() as stack:
        log = stack.enter_context(closing(Log(out, settings.name)))
        keys = read_keys(settings.keys)
        if settings.realtime:
            be_realtime()
        stack.callback(os.close, lock_state(settings.state))
        record = read_record(settings)
        datagrams = stack.enter_context(closing(_datagrams(settings)))
        incarnation = next_incarnation(record, time.time_ns() // 1_000_000)
        life = Life(settings.node, incarnation, secrets.randbits(64))
        tail, pace, receipts = Tail(), Pace(), Receipts(settings.node)
        memory = stack.enter_context(closing(Memory(settings, life, log.say)))
        listeners: list[Listener] = [tail, pace, receipts, log, *memory.listeners()]
        driver = _driver(settings, life, record, keys, datagrams, listeners)
        driver.outbox.told = receipts.name
        driver.is_busy = settings.busy
        stack.callback(driver.watch.close)
        orders = Orders(settings, driver, datagrams, tail, pace, receipts, memory)
        control = ControlServer(settings.state, driver.watch, orders.answer)
        stack.callback(control.close)
        access = Access(settings.client_mode, settings.client_group)
        limits = (settings.message_max, settings.client_queue)
        sessions = Sessions(settings.state, access, driver, *limits, log.say)
        stack.callback(sessions.close)
        memory.watch_sessions(driver, sessions)
        orders.sessions = sessions.status
        driver.chores.extend([summary(log, orders.refused), datagrams.look_for_lost, control.tend])
        memory.attach(driver, pace, orders.refused)
        reload = Reload(settings, keys, reread, driver, log)
        reload.tell(orders.set_settings)
        orders.add("reload", reload.answer)
        orders.add("doctor", Doctor(lambda: reload.settings, driver, datagrams).answer)
        stack.enter_context(closing(_Bells(driver, log, reload.on_signal)))
        if until_eof:
            driver.watch.add(sys.stdin.fileno(), lambda _: _read_on(driver))
        _introduce(log, settings, life)
        # Whatever lives now lives for good; what comes makes no cycles, and a collection in the
        # middle of a rotation would look like a slow processor to the others.
        gc.collect()
        gc.freeze()
        gc.disable()
        lastwords.forget(settings.state)
        try:
            driver.run()
        except BaseException as error:  # a promise of ours is broken; what led there is kept
            driver.stop(f"{type(error).__name__}: {error}")
            raise
        finally:
            lastwords.leave(settings.state, driver.how, driver.why)
    return 0 if driver.how == "stop" else 1


def _datagrams(settings: Settings) -> Datagrams:
    return Datagrams(
        settings.listen,
        settings.peers,
        multicast=settings.multicast,
        in_bursts=settings.gso == "auto",
    )


def _driver(
    settings: Settings,
    life: Life,
    record: StableRecord,
    keys: tuple[Key, ...],
    datagrams: Datagrams,
    listeners: list[Listener],
) -> Driver:
    parameters = settings.parameters
    return Driver(
        life,
        record,
        parameters,
        settings.packet,
        settings.limits(),
        settings.voters(),
        Sealer(settings.cluster, keys[0] if keys else None, *life),
        Opener(settings.cluster, keys, _replay_window(parameters), DATAGRAM_MAX),
        datagrams,
        StableStore(settings.state),
        settings.peers,
        listeners,
    )


def _replay_window(parameters: Parameters) -> int:
    # In a broadcast domain whoever holds a message may send it, so the counter runs faster.
    if isinstance(parameters, LansisParameters):
        return max(REPLAY_WINDOW_MIN, 8 * parameters.w_high)
    return max(REPLAY_WINDOW_MIN, 4 * parameters.window_size)


def _introduce(log: Log, settings: Settings, life: Life) -> None:
    log.say(
        f"evensong {__version__}: node {life.node} of {settings.processors()} in cluster "
        f"{settings.cluster}, incarnation {life.incarnation}, listens on {settings.listen}"
    )
    for name in settings.idle_variables:
        log.say(f"{name} overrides nothing: there is no such key")
    if not settings.keys:
        log.say("INSECURE: datagrams are neither encrypted nor authenticated")
    if settings.testing:
        log.say("TESTING: whoever can reach the control socket can cut this daemon off")


def _read_on(driver: Driver) -> None:
    if not os.read(sys.stdin.fileno(), 4_096):
        driver.watch.remove(sys.stdin.fileno())
        driver.leave()


@final
class _Bells:
    """Signals: the first asks to leave in good order, the second stops at once; SIGHUP reloads."""

    def __init__(self, driver: Driver, log: Log, reload: Callable[[], None]) -> None:
        self._driver: Final = driver
        self._log: Final = log
        self._reload: Final = reload
        self._rung = 0
        self._is_reload_wanted = False
        # A wait that a signal interrupts goes on by itself; what wakes it is a byte in this pipe.
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: Final = [(number, signal.signal(number, self._ring)) for number in SIGNALS]
        self._before.extend((number, signal.signal(number, signal.SIG_IGN)) for number in IGNORED)
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        driver.watch.add(self._reading, self._answer)

    def _ring(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._is_reload_wanted = True
        else:
            self._rung += 1

    def _answer(self, _events: int) -> None:
        os.read(self._reading, 64)
        if self._is_reload_wanted:
            self._is_reload_wanted = False
            self._reload()
        if self._rung >= 2:
            self._driver.stop("a second signal")
        elif self._rung and not self._driver.is_leaving():
            self._log.say("was told to stop, leaves")
            self._driver.leave()

    def close(self) -> None:
        """Leave signals as they were."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._before:
            signal.signal(number, handler)
        os.close(self._reading)
        os.close(self._writing)

"""The timers of a processor in a broadcast domain."""

from typing import Final, final

from evensong.core.timer import Timer
from evensong.core.transis.parameters import Parameters


@final
class Timers:
    """What a processor waits for; missing messages have deadlines of their own."""

    __slots__ = (
        "ack",
        "agree",
        "collect",
        "every",
        "heartbeat",
        "offer",
        "pace",
        "repeat",
        "stuck",
    )

    def __init__(self, parameters: Parameters) -> None:
        self.heartbeat: Final = Timer(parameters.heartbeat)
        self.ack: Final = Timer(parameters.ack_idle)
        self.pace: Final = Timer(parameters.pace_max)
        self.stuck: Final = Timer(3 * parameters.heartbeat)
        self.collect: Final = Timer(parameters.collect)
        self.offer: Final = Timer(max(1, parameters.collect // 3))
        self.agree: Final = Timer(parameters.agree)
        self.repeat: Final = Timer(parameters.heartbeat // 2)
        self.every: Final = (
            self.heartbeat,
            self.ack,
            self.pace,
            self.stuck,
            self.collect,
            self.offer,
            self.agree,
            self.repeat,
        )

    def deadline(self) -> int:
        """When the first of them fires."""
        return min([timer.deadline for timer in self.every])

    def stop_flow(self) -> None:
        """Stop what belongs to sending: from the first JOIN on a processor is quiet."""
        self.heartbeat.stop()
        self.ack.stop()
        self.pace.stop()
        self.stuck.stop()

    def stop_collecting(self) -> None:
        """Stop what belongs to COLLECT."""
        self.collect.stop()
        self.offer.stop()

    def stop_agreeing(self) -> None:
        """Stop what belongs to AGREE."""
        self.agree.stop()
        self.repeat.stop()

    def stop_all(self) -> None:
        """Wait for nothing any more."""
        for timer in self.every:
            timer.stop()

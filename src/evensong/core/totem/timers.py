"""The six timers of a processor on a ring [SRP §4, §5]."""

from typing import Final, final

from evensong.core.timer import Timer
from evensong.core.totem.parameters import Parameters


@final
class Timers:
    """What a processor waits for, whatever its state."""

    __slots__ = ("beacon", "consensus", "every", "hold", "join", "token_loss", "token_retransmit")

    def __init__(self, parameters: Parameters) -> None:
        self.token_loss: Final = Timer(parameters.token_loss)
        self.token_retransmit: Final = Timer(parameters.token_retransmit)
        self.consensus: Final = Timer(parameters.consensus)
        self.join: Final = Timer(parameters.join)
        self.hold: Final = Timer(parameters.hold)
        self.beacon: Final = Timer(parameters.beacon)
        self.every: Final = (
            self.token_loss,
            self.token_retransmit,
            self.consensus,
            self.join,
            self.hold,
            self.beacon,
        )

    def deadline(self) -> int:
        """When the first of them fires."""
        return min(
            self.token_loss.deadline,
            self.token_retransmit.deadline,
            self.consensus.deadline,
            self.join.deadline,
            self.hold.deadline,
            self.beacon.deadline,
        )

    def stop_gathering(self) -> None:
        """Stop what belongs to Gather only: a Join sent later would throw the others back."""
        self.join.stop()
        self.consensus.stop()

    def stop_circulating(self) -> None:
        """Stop what belongs to a token that circulates."""
        self.token_loss.stop()
        self.token_retransmit.stop()
        self.hold.stop()
        self.beacon.stop()

    def forgive(self, now: int) -> None:
        """Give everybody their full time again: it was I who was late."""
        for timer in (self.token_loss, self.consensus, self.join):
            if timer.is_armed():
                timer.start(now)

    def stop_all(self) -> None:
        """Wait for nothing any more."""
        for timer in self.every:
            timer.stop()

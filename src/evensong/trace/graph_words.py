"""What the picture of a causal graph says in words: of a message, a delivery, a view, the whole."""

from typing import TYPE_CHECKING, Final, final

from evensong.core.effects import Service
from evensong.core.ids import Configuration, ProcessorId
from evensong.core.transis.frames import JOIN, REGULAR, ViewId
from evensong.sim.transis.memoir import OPEN, Entrance, Memoir, Name, Post, Receipt
from evensong.trace.graph_layout import Span

if TYPE_CHECKING:
    from evensong.sim.transis.oracle import Round


def ms(t_us: int) -> str:
    """Return a moment."""
    return f"{t_us / 1000:,.10g} ms"


@final
class Words:
    """Tells a run."""

    def __init__(self, memoir: Memoir) -> None:
        self._memoir: Final = memoir
        self._rounds: Final[dict[Name, tuple[int, Round]]] = {}  # in which it was chosen
        self._beaten: Final[dict[Name, list[int]]] = {}  # in which it stood and was not
        self._receipts: Final[dict[Name, list[Receipt]]] = {}
        self._members: Final[dict[ViewId, tuple[ProcessorId, ...]]] = {}
        for one in memoir.happenings:
            if isinstance(one, Receipt):
                self._receipts.setdefault(one.name, []).append(one)
            elif isinstance(one, Entrance):
                self._members[one.conf.conf_id] = one.conf.members
        for view_id in memoir.graphs:
            self._number(view_id)

    def _number(self, view_id: ViewId) -> None:
        for number, found in enumerate(self._memoir.rounds(view_id), start=1):
            chosen = [self._memoir.name_of(node) for node in found.chosen]
            if not any(self._is_decided(name) for name in chosen):
                return  # nobody came so far: what is left is ordered when the view ends
            for node in found.candidates:
                name = self._memoir.name_of(node)
                if name in chosen:
                    self._rounds[name] = (number, found)
                else:
                    self._beaten.setdefault(name, []).append(number)

    def _is_decided(self, name: Name) -> bool:
        return any(not receipt.after_gap for receipt in self._receipts.get(name, []))

    def round_of(self, name: Name) -> int:
        """Return in which round of its view ToTo chose a message; 0 if it did not."""
        return self._rounds[name][0] if name in self._rounds else 0

    def view(self, conf: Configuration) -> str:
        """Return a view's number and members."""
        if len(conf.members) == 1:
            return "alone"
        return f"view {conf.conf_id.seq} {{{','.join(map(str, conf.members))}}}"

    def stay(self, entrance: Entrance) -> str:
        """Tell who is in which view since when."""
        conf = entrance.conf
        because = f": {conf.cause}" if conf.cause else ""
        return f"p{entrance.proc} installs {self.view(conf)} at {ms(entrance.at_us)}{because}"

    def message(self, post: Post) -> str:
        """Tell everything of a message, a line for each matter."""
        message, name = post.node.message, post.name
        lines = [f"{name}, {self._kind(post)}, sent at {ms(post.at_us)} in view {name.view_id.seq}"]
        causes = [str(Name(name.view_id, *ack)) for ack in message.acks]
        if name.number > 1:
            causes.append(f"its sender's {name.number - 1}")
        lines.append(f"follows {', '.join(causes)}" if causes else "follows nothing")
        if message.kind == JOIN and message.proposal is not None:
            required = " ".join(f"p{entry.proc}" for entry in message.proposal.required())
            lines.append(f"proposes a view of {required}")
        if self._memoir.is_ordered(name):
            lines += self._ballot(name)
        lines += [self.receipt(receipt) for receipt in self._receipts.get(name, [])]
        return "\n".join(lines)

    def _kind(self, post: Post) -> str:
        message = post.node.message
        if message.kind != REGULAR:
            return "join" if message.kind == JOIN else "null"
        return f"{message.service.name.lower()}, unit {post.node.unit_id}"

    def _ballot(self, name: Name) -> list[str]:
        memoir = self._memoir
        votes = memoir.votes(name)
        cast = [
            f"p{proc} itself" if vote == name else f"p{proc} by {vote} ({self._sent(vote)})"
            for proc, vote in votes.items()
        ]
        silent = [f"p{proc}" for proc in memoir.graphs[name.view_id].procs if proc not in votes]
        lines = [f"votes: {', '.join(cast)}"]
        if silent:
            lines.append(f"no vote: {' '.join(silent)}")
        stood = [
            f"p{proc} {ms(since)} to {ms(until) if until != OPEN else 'the end'}"
            for (one, proc), (since, until) in memoir.candidacies.items()
            if one == name
        ]
        if stood:
            lines.append(f"candidate: {', '.join(stood)}")
        return [*lines, self._decision(name)]

    def _decision(self, name: Name) -> str:
        beaten = self._beaten.get(name, [])
        if len(beaten) > 1:
            before = f"stood in rounds {beaten[0]} to {beaten[-1]} and was beaten; "
        else:
            before = f"stood in round {beaten[0]} and was beaten; " if beaten else ""
        if name not in self._rounds:
            return f"{before}not decided by votes"
        number, found = self._rounds[name]
        others = [self._memoir.name_of(node) for node in found.chosen]
        beside = " ".join(str(one) for one in others if one != name)
        losers = " ".join(
            str(self._memoir.name_of(node)) for node in found.candidates if node not in found.chosen
        )
        text = f"{before}chosen in round {number}"
        text += f" together with {beside}" if beside else ""
        return text + (f", before {losers}" if losers else "")

    def _sent(self, name: Name) -> str:
        return ms(self._memoir.posts[name].at_us)

    def receipt(self, receipt: Receipt) -> str:
        """Tell a delivery."""
        post = self._memoir.posts[receipt.name]
        service = receipt.service.name.lower()
        text = f"p{receipt.proc} delivers {receipt.name} ({service}) at {ms(receipt.at_us)}, "
        text += f"{ms(receipt.at_us - post.at_us)} after it was sent"
        if receipt.place:
            text += f", place {receipt.place}"
        if receipt.after_gap:
            text += ", left when the view ended"
        elif receipt.inserted and receipt.service in (Service.AGREED, Service.SAFE):
            size = len(self._members[receipt.name.view_id])
            text += f", votes of {len(self._memoir.heard(receipt))} of {size} known"
        if receipt.reduced:
            text += ", reduced: not everybody of its view is known to have it"
        return text

    def summary(self, span: Span, procs: list[ProcessorId]) -> str:
        """Say what the picture shows, for those who do not see it."""
        shown = [one for one in self._memoir.happenings if span.has(one.at_us)]
        posts = [one for one in shown if isinstance(one, Post)]
        regular = sum(one.node.message.kind == REGULAR for one in posts)
        deliveries = sum(isinstance(one, Receipt) for one in shown)
        views = {one.conf.conf_id for one in shown if isinstance(one, Entrance)}
        return (
            f"{len(procs)} processors, {ms(span.from_us)} to {ms(span.to_us)}: "
            f"{len(posts)} messages of the graph, {regular} of them of clients, "
            f"{deliveries} deliveries, {len(views)} views begun."
        )

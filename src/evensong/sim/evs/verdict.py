"""What the EVS check says: findings of one property, verdicts of a run."""

from collections.abc import Collection
from enum import Enum
from typing import Final, NamedTuple, final

from evensong.core.ids import ProcessorId
from evensong.core.unit import UnitId

SAMPLES_MAX: Final = 5


class Status(Enum):
    """How a property fared in a run."""

    PASS = "pass"
    FAIL = "fail"
    VACUOUS = "vacuous"  # nothing in the run was about it: no proof of anything
    INCONCLUSIVE = "inconclusive"  # the run ended before the question was decided


class Violation(NamedTuple):
    """A witness: who did what that the property forbids."""

    property_id: str
    text: str
    nodes: tuple[ProcessorId, ...] = ()
    units: tuple[UnitId, ...] = ()

    def __str__(self) -> str:
        return f"{self.property_id}: {self.text}"


@final
class Finding:
    """What one property found: how many rows were relevant, and which broke it."""

    __slots__ = ("checked", "property_id", "unknown", "violations")

    def __init__(self, property_id: str) -> None:
        self.property_id: Final = property_id
        self.checked = 0  # rows the property speaks about
        self.unknown = 0  # those of them that the end of the recording leaves open
        self.violations: Final[list[Violation]] = []

    def blame(
        self, text: str, nodes: tuple[ProcessorId, ...] = (), units: tuple[UnitId, ...] = ()
    ) -> None:
        """Add a witness."""
        self.violations.append(Violation(self.property_id, text, nodes, units))

    def verdict(self) -> "Verdict":
        """Sum up; a violation outweighs what is unknown, which outweighs what held."""
        if self.violations:
            status = Status.FAIL
        elif self.unknown:
            status = Status.INCONCLUSIVE
        elif self.checked:
            status = Status.PASS
        else:
            status = Status.VACUOUS
        return Verdict(
            self.property_id,
            status,
            self.checked,
            self.unknown,
            len(self.violations),
            tuple(self.violations[:SAMPLES_MAX]),
        )


class Verdict(NamedTuple):
    """The verdict on one property."""

    property_id: str
    status: Status
    n_checked: int
    n_unknown: int
    n_violations: int
    samples: tuple[Violation, ...]


@final
class Verdicts:
    """The verdicts of a run, by property id, in the order of the catalogue."""

    __slots__ = ("by_property",)

    def __init__(self, findings: list[Finding]) -> None:
        self.by_property: Final = {one.property_id: one.verdict() for one in findings}

    def __getitem__(self, property_id: str) -> Verdict:
        return self.by_property[property_id]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Verdicts) and self.by_property == other.by_property

    __hash__ = None  # type: ignore[assignment]  # a report, not a key

    def only(self, property_ids: Collection[str]) -> "Verdicts":
        """Return the verdicts on some of the properties."""
        chosen = Verdicts([])
        chosen.by_property.update(
            (name, verdict) for name, verdict in self.by_property.items() if name in property_ids
        )
        return chosen

    def having(self, status: Status) -> tuple[str, ...]:
        """Return the properties of that status."""
        return tuple(v.property_id for v in self.by_property.values() if v.status is status)

    @property
    def failed(self) -> tuple[str, ...]:
        """The properties that do not hold."""
        return self.having(Status.FAIL)

    @property
    def holds(self) -> bool:
        """Whether nothing failed; vacuous and inconclusive properties do not count as failed."""
        return not self.failed

    @property
    def n_unknown(self) -> int:
        """How many rows could not be judged, over all properties."""
        return sum(verdict.n_unknown for verdict in self.by_property.values())

    def _with_unknown(self, property_id: str) -> str:
        unknown = self[property_id].n_unknown
        return f"{property_id} ({unknown} unknown)" if unknown else property_id

    def explain(self) -> str:
        """Tell a person what failed and show the witnesses; a line on the rest."""
        lines = []
        for verdict in self.by_property.values():
            if verdict.status is Status.FAIL:
                lines.append(
                    f"{verdict.property_id} fails: {verdict.n_violations} violations "
                    f"in {verdict.n_checked} rows"
                )
                lines.extend(f"  {sample.text}" for sample in verdict.samples)
        for status in (Status.PASS, Status.VACUOUS, Status.INCONCLUSIVE):
            named = self.having(status)
            if named:
                lines.append(f"{status.value}: {', '.join(map(self._with_unknown, named))}")
        return "\n".join(lines)

"""The pytest plugin: a fixture that starts simulated clusters, and tells how to repeat a failure.

`--evensong-seed N` sets the seed of every cluster that is started without one, `random` draws it
anew: a failing test then says which it was.
"""

from collections.abc import Callable, Generator
from random import SystemRandom
from typing import TYPE_CHECKING, Final, TypeAlias

import pytest

if TYPE_CHECKING:
    from evensong.testing.simulated import Cluster

OPTION: Final = "--evensong-seed"
SEED_END: Final = 2**31
_STARTED: Final = pytest.StashKey[list["Cluster"]]()

StartCluster: TypeAlias = Callable[..., "Cluster"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option."""
    parser.getgroup("evensong").addoption(
        OPTION,
        default="0",
        metavar="N",
        type=_seed,
        help="seed of simulated clusters: a number (default 0), or `random`",
    )


def _seed(text: str) -> int:
    if text == "random":
        return SystemRandom().randrange(SEED_END)
    return int(text)


@pytest.fixture
def evensong_cluster(request: pytest.FixtureRequest) -> StartCluster:
    """Start simulated clusters: `evensong_cluster(3)`, with the arguments of `cluster`."""
    from evensong.testing.simulated import cluster

    started = request.node.stash.setdefault(_STARTED, [])

    def start(
        nodes: int, seed: int | None = None, *, loss: float = 0.0, engine: str = "totem"
    ) -> "Cluster":
        chosen: int = request.config.getoption(OPTION) if seed is None else seed
        new = cluster(nodes, chosen, loss=loss, engine=engine)
        started.append(new)
        return new

    return start


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failure what its clusters were, and how to have them again."""
    report = yield
    started = item.stash.get(_STARTED, [])
    if report.failed and started:
        lines = [f"{one!r}: {one.describe()}" for one in started]
        seeds = dict.fromkeys(one.seed for one in started)
        lines += [f"repeat: pytest {OPTION}={seed} {item.nodeid!r}" for seed in seeds]
        report.sections.append(("evensong", "\n".join(lines)))
    return report

import pytest

from tests.tidy.purity import core_calls, core_imports, core_set_order, layering

CORE = "src/evensong/core/ring.py"


@pytest.mark.parametrize(
    "line",
    [
        "import time",
        "import random",
        "from random import randint",
        "from random import Random, choice",
        "import asyncio",
        "import os.path",
        "import structlog",
        "from evensong import cli",
        "from evensong.sim import world",
        "from evensong.corelib import x",
        "from .ids import RingId",
        "def f():\n    import logging",
    ],
)
def test_an_import_that_a_core_may_not_have_is_caught(line: str) -> None:
    assert len(core_imports(CORE, line)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "import struct, zlib",
        "from random import Random",
        "from collections.abc import Mapping",
        "from evensong import errors",
        "from evensong.core import ids",
        "from evensong.core.totem.wire import encode_token",
        "from evensong.errors import CorruptRecord",
    ],
)
def test_an_import_that_a_core_may_have_is_let_through(line: str) -> None:
    assert core_imports(CORE, line) == []


@pytest.mark.parametrize(
    "line",
    [
        "now = time.monotonic()",
        "stored = open('ring_seq')",
        "asyncio.sleep(1)",
        "print(token)",
        "line = input()",
        "seq = getattr(token, name)",
        "key = id(token)",
        "key = hash(token)",
        "half = 0.5",
        "def f(x: float) -> None: ...",
        "half = token_loss / 2",
        "token_loss /= 2",
        "def f(**kwargs): ...",
        "f = lambda **kwargs: None",
        "logging.info('joined')",
        "os.urandom(8)",
        "jitter = random.randint(0, 3)",
    ],
)
def test_a_core_that_acts_is_caught(line: str) -> None:
    assert len(core_calls(CORE, line)) == 1


def test_what_merely_looks_like_acting_is_let_through() -> None:
    source = "self.open(x); ring.id; half = 5 // 2; f(**options); rng.randint(0, 3); hash_of = 1"
    assert core_calls(CORE, source) == []


@pytest.mark.parametrize(
    "source",
    [
        "for p in {1, 2}: pass",
        "for p in set(members): pass",
        "for p in frozenset(members): pass",
        "for p in {q for q in members}: pass",
        "for p in members - {my_id}: pass",
        "for p in old.union(new): pass",
        "order = [p for p in set(members)]",
        "order = {p: 0 for p in {1, 2}}",
        "order = list({1, 2})",
        "order = [*set(members)]",
        "seen: set[int] = load()\nfor p in seen: pass",
        "seen = frozenset(members)\nfor p in seen: pass",
        "self.proc_set: Final[set[int]] = load()\nfor p in self.proc_set: pass",
        "def f(proc_set: frozenset[int]) -> None:\n    for p in proc_set: pass",
        "def f(proc_set: set[int]) -> int:\n    return proc_set.pop()",
        "b','.join({b'x', b'y'})",
        "class A:\n    def f(self): self.s = set()\n    def g(self): return [*self.s]",
        "MEMBERS = frozenset((1, 2))\ndef f():\n    for p in MEMBERS: pass",
        "def f():\n    s = set()\n    def g():\n        return [p for p in s]",
    ],
)
def test_the_order_of_a_set_is_caught(source: str) -> None:
    assert len(core_set_order(CORE, source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "for p in sorted({2, 1}): pass",
        "for p in members: pass",
        "ok = all(heard[p] for p in {1, 2})",
        "low = min({1, 2})",
        "order = sorted(p for p in set(members))",
        "kept = {p for p in set(members)}",
        "order = sorted(list({1, 2}))",
        "seen: set[int] = set()\nif p in seen: pass",
        "order: dict[int, int] = {}\nfor p in order: pass",
        "queue.pop()",
        "def f():\n    ids = set()\ndef g(ids: list[int]):\n    for p in ids: pass",
        "ids = set()\ndef g():\n    ids: tuple[int, ...] = ()\n    for p in ids: pass",
        "class A:\n    def f(self): self.s = set()\nclass B:\n    def g(self): return [*self.s]",
    ],
)
def test_a_set_without_its_order_is_let_through(source: str) -> None:
    assert core_set_order(CORE, source) == []


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (CORE, "from evensong.sim.world import World"),
        (CORE, "from evensong import trace"),
        (CORE, "import evensong.cli.main"),
        (CORE, "from evensong.daemon import driver"),
        ("src/evensong/core/__init__.py", "from evensong.sim import world"),
        ("src/evensong/sim/world.py", "from evensong.cli.progress import Progress"),
        ("src/evensong/sim/world.py", "from ..cli import progress"),
        ("src/evensong/trace/parquet.py", "from evensong.cli import main"),
        ("src/evensong/ipc/wire.py", "from evensong.daemon import driver"),
        ("src/evensong/errors.py", "from evensong.core.ids import RingId"),
        ("src/evensong/daemon/main.py", "from evensong.demo.play import Play"),
    ],
)
def test_an_import_of_a_layer_above_is_caught(path: str, line: str) -> None:
    assert len(layering(path, line)) == 1


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("src/evensong/sim/world.py", "from evensong.core.core import Core"),
        ("src/evensong/ipc/wire.py", "from evensong.core.ids import RingId"),
        ("src/evensong/daemon/sessions.py", "from evensong.ipc import wire"),
        ("src/evensong/cli/sim.py", "from evensong.sim.world import World"),
        ("src/evensong/simple.py", "from evensong.cli import main"),
    ],
)
def test_an_import_of_a_layer_below_is_let_through(path: str, line: str) -> None:
    assert layering(path, line) == []

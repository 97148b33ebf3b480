"""Where the time goes: stacks, stages and pictures of them; never how fast."""

import ast
import json
import os
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import pytest

from bench import profile
from bench.peers import document
from bench.peers.network import CannotMeasure
from bench.profile import Profile
from bench.profiling import flame
from bench.profiling.spy import Spy
from bench.profiling.stacks import Stack, by_stage, folded, module_of
from bench.profiling.stages import (
    APART,
    CALLER,
    CLIENT,
    DAEMON,
    FUNCTIONS,
    HAND,
    KINDS,
    MESSAGES,
    MODULES,
    OPEN,
    PACK,
    PROGRAM,
    QUEUE,
    READ,
    REST,
    RING,
    SEAL,
    SPLIT,
    WAITING,
    WAY,
    Frame,
    stage_of,
)
from tests.bench.processes import descendants

SOURCE = Path("src/evensong")
WHOSE = {
    DAEMON: ("daemon", "core/totem", "core/groups", "core", "ipc"),
    CLIENT: ("client", "ipc"),
}
NOISE = {"cores": 2, "others_cores": 0.1, "stolen_cores": 0.0}
ROOT = (
    "_run_code (<frozen runpy>);run (evensong/daemon/main.py);"
    "Driver.run (evensong/daemon/driver.py)"
)
RAW = f"""\
{ROOT};Watch.wait (evensong/daemon/watch.py) 500
{ROOT};Watch.dispatch (evensong/daemon/watch.py) 10
{ROOT};Driver.perform (evensong/daemon/driver.py);Sealer.seal_long (evensong/daemon/seal.py) 30
{ROOT};Sessions.on_asked (evensong/daemon/sessions.py);decode (evensong/ipc/wire.py:7) 20
{ROOT};Sessions.tell (evensong/daemon/sessions.py);encode (evensong/ipc/wire.py:9) 40
Thread._bootstrap (threading.py);Condition.wait (threading.py) 400
 3
"""
CLIENT_RAW = """\
main (evensong/bench/member.py);BaseEventLoop._run_once (asyncio/base_events.py) 10
main (evensong/bench/member.py);EpollSelector.select (selectors.py) 70
main (evensong/bench/member.py);Sender.run (evensong/bench/member.py) 30
"""


def frames(*names: str) -> Stack:
    return tuple(Frame(*name.split(":")) for name in names)


def profiled(size: int = 100) -> Profile:
    stacks = {DAEMON: folded(RAW), CLIENT: folded(CLIENT_RAW)}
    return Profile(size, 3, 400_000, 300_000, {DAEMON: 3.0, CLIENT: 1.0}, stacks, NOISE)


def test_a_module_is_named_by_its_package_and_never_by_a_path_of_the_machine() -> None:
    for file, module in {
        "evensong/daemon/driver.py": "daemon.driver",
        "/srv/evensong/src/evensong/core/groups/__init__.py": "core.groups",
        "/opt/evensong/venv/lib/python3.12/asyncio/base_events.py": "asyncio.base_events",
        "/x/lib/python3.11/site-packages/evensong/ipc/wire.py": "ipc.wire",
        "/x/lib/python3.11/site-packages/msgspec/json.py": "msgspec.json",
        "<frozen runpy>": "runpy",
        "selectors.py": "selectors",
        "/srv/program.py": "program",
    }.items():
        assert module_of(file) == module


def test_stacks_are_folded_and_those_that_wait_are_left_out() -> None:
    seen = folded(RAW + RAW)
    assert sum(seen.values()) == 200
    way = frames("runpy:_run_code", "daemon.main:run", "daemon.driver:Driver.run")
    assert seen[(*way, Frame("daemon.watch", "Watch.dispatch"))] == 20
    assert not any(stack[-1].last_name() == "wait" for stack in seen)


def test_samples_belong_to_the_innermost_stage() -> None:
    assert by_stage(folded(RAW), DAEMON) == {
        **{stage: 0 for stage, kind in WAY if kind == DAEMON},
        READ: 20,
        SEAL: 30,
        HAND: 40,
        REST: 10,
    }
    assert by_stage(folded(CLIENT_RAW), CLIENT) == {
        **{stage: 0 for stage, kind in WAY if kind == CLIENT},
        PROGRAM: 30,
        REST: 10,
    }


@pytest.mark.parametrize(
    ("kind", "stack", "stage"),
    [
        (DAEMON, frames("core.node:Node.pull"), QUEUE),
        (DAEMON, frames("core.totem.holder:Holder.visit", "core.ids:RingId.__lt__"), RING),
        (DAEMON, frames("daemon.seal:Sealer.seal", "daemon.seal:pieces_of"), SEAL),
        (DAEMON, frames("daemon.opening:Opener.open", "daemon.seal:pieces_of"), OPEN),
        (DAEMON, frames("core.groups.layer:Groups._take", "core.groups.packet:alike"), APART),
        (DAEMON, frames("daemon.connection:Connection.read", "daemon.connection:<listcomp>"), READ),
        (DAEMON, frames("runpy:_run_code"), REST),
        (CLIENT, frames("client.link:Link._flush", "ipc.unsent:Unsent.write"), PACK),
        (CLIENT, frames("client.packing:pack"), PACK),
        (CLIENT, frames("client.packing:unpack"), MESSAGES),
        (CLIENT, frames("asyncio.events:Handle._run", "client.link:Link._on_readable"), SPLIT),
        (CLIENT, frames("bench.member:main", "asyncio.runners:run"), REST),
    ],
)
def test_a_function_goes_before_its_module_and_a_servant_is_its_callers(
    kind: str, stack: Stack, stage: str
) -> None:
    assert stage_of(stack, kind) == stage


@pytest.mark.parametrize("kind", KINDS)
def test_every_module_on_the_way_has_one_stage(kind: str) -> None:
    named = Counter(module for modules in MODULES[kind].values() for module in modules.split())
    assert set(named.values()) == {1}
    there = {
        module_of(str(file)) for folder in WHOSE[kind] for file in (SOURCE / folder).glob("*.py")
    }
    assert len(there) > 15
    assert there - named.keys() == set()
    assert named.keys() - there <= {"bench.member"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_function_with_a_stage_exists_and_has_one(kind: str) -> None:
    named = Counter(
        (module, name)
        for modules in FUNCTIONS[kind].values()
        for module, names in modules.items()
        for name in names.split()
    )
    assert set(named.values()) == {1}
    for module, name in named:
        if not module.startswith("asyncio"):
            assert name in defined_in(module), f"{module} has no {name}"


def defined_in(module: str) -> set[str]:
    source = (SOURCE / module.replace(".", "/")).with_suffix(".py").read_text()
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(ast.parse(source)) if isinstance(node, functions)}


def test_every_stage_is_on_the_way_of_its_kind() -> None:
    for kind in KINDS:
        way = {stage for stage, where in WAY if where == kind}
        assert {*MODULES[kind], *FUNCTIONS[kind]} - {CALLER} <= way
    assert set(WAITING["daemon.watch"].split()) <= defined_in("daemon.watch")


def test_samples_only_divide_what_the_processes_used() -> None:
    rows = {(one.stage, one.kind): one for one in profiled().budget()}
    assert rows[SEAL, DAEMON].message_ns == pytest.approx(900)
    assert rows[HAND, DAEMON].share == pytest.approx(0.3)
    assert rows[PROGRAM, CLIENT].message_ns == pytest.approx(750)
    assert sum(one.share for one in rows.values()) == pytest.approx(1)
    assert sum(one.message_ns for one in rows.values()) == pytest.approx(4_000)
    for size in (100, 1024):
        budget = profiled(size)
        in_packet = budget.messages_in_packet()
        assert in_packet == pytest.approx(1_300 / (size + 2), rel=0.05)
        for one in budget.budget():
            assert one.packet_us == pytest.approx(one.message_ns * in_packet / 1_000)


def test_a_flame_graph_is_well_formed_and_escapes_names() -> None:
    stacks = {
        frames("a:main", "a:<lambda>", "b:f&g"): 600,
        frames("a:main", "c:h"): 398,
        frames("a:main", "c:h", "d:narrow"): 2,
    }
    drawing = flame.drawn("x < y & z", stacks, DAEMON)
    root = ElementTree.fromstring(drawing)
    titles = [one.text for one in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == [
        "x < y & z",
        f"a.main: 100.0 %, {REST}",
        f"a.<lambda>: 60.0 %, {REST}",
        f"b.f&g: 60.0 %, {REST}",
        f"c.h: 40.0 %, {REST}",
    ]
    boxes = [
        [float(rect.attrib[name]) for name in ("x", "y", "width", "height")]
        for group in root.iter("{http://www.w3.org/2000/svg}g")
        for rect in group.iter("{http://www.w3.org/2000/svg}rect")
    ]
    main, inner, _, other = boxes
    assert inner[1] == other[1] < main[1]
    assert inner[0] + inner[2] < other[0]
    assert other[0] + other[2] == pytest.approx(main[0] + main[2])
    assert main[1] + main[3] <= float(root.attrib["height"])
    assert "prefers-color-scheme:dark" in drawing
    assert "<script" not in drawing
    assert "http" not in drawing.replace("http://www.w3.org/2000/svg", "")


def test_a_name_is_cut_from_the_left_and_then_from_the_right() -> None:
    frame = Frame("core.totem.wire", "decode_row")
    widths = [(len(name) + 1) * flame.LETTER for name in ("x" * 26, "x" * 15, "x" * 10)]
    assert [flame.label(frame, width) for width in widths] == [
        "core.totem.wire.decode_row",
        "wire.decode_row",
        "decode_row",
    ]
    assert flame.label(frame, 8 * flame.LETTER) == "decode…"
    assert flame.label(frame, 4 * flame.LETTER) == ""


def test_what_all_stacks_have_in_common_is_left_out_unless_it_works() -> None:
    way = frames("a:a", "a:b", "a:c")
    parted = {(*way, *frames("a:d")): 1, (*way, *frames("a:e")): 1}
    assert flame.trunk(flame.tree(parted, DAEMON)).frame == Frame("a", "c")
    assert flame.trunk(flame.tree({**parted, way[:2]: 1}, DAEMON)).frame == Frame("a", "b")
    assert flame.trunk(flame.tree({way: 1}, DAEMON)).frame == Frame("a", "c")


def test_budgets_and_pictures_of_all_sizes_go_into_the_document(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(Path("docs/performance.md").read_text())
    profile.write([profiled(100), profiled(1024)], page)
    text = page.read_text()
    assert f"| {SEAL} | daemon | 22.5 % |" in text
    assert "| all |  | 100.0 % |" in text
    begin, end = document.marks_of(profile.NAME)
    assert text.count(begin) == text.count(end) == 1
    for size in (100, 1024):
        for kind in KINDS:
            file = f"{profile.NAME}-{size}-{kind}.svg"
            assert f"]({file})" in text
            assert ElementTree.fromstring((tmp_path / file).read_text()).tag.endswith("svg")


def test_figures_are_plain_json() -> None:
    told = json.loads(json.dumps(profiled().told()))
    assert told["samples"] == {DAEMON: 100, CLIENT: 40}
    assert [one["stage"] for one in told["budget"]] == [stage for stage, _ in WAY]


def test_without_py_spy_it_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    missing = str(tmp_path / "py-spy")
    assert profile.main(["--py-spy", missing]) == 3
    assert f"missing: {missing}" in capsys.readouterr().err


def program(directory: Path, *lines: str) -> str:
    """Write a program that is called as py-spy is: the file to write to comes last."""
    path = directory / "py-spy"
    path.write_text("\n".join(["#!/bin/sh", "for file; do :; done", *lines, ""]))
    path.chmod(0o755)
    return str(path)


def test_what_a_sampler_complains_of_is_told(tmp_path: Path) -> None:
    refusing = program(tmp_path, "echo 'Permission Denied'", "exit 1")
    with Spy(refusing, tmp_path, 0.1, 10) as spy:
        spy.begin([os.getpid()], [os.getpid()])
        with pytest.raises(CannotMeasure, match="py-spy, at a daemon: Permission Denied"):
            spy.stacks()


def test_a_sampler_that_saw_only_waiting_is_not_divided_by(tmp_path: Path) -> None:
    idle = program(tmp_path, "echo 'Watch.wait (evensong/daemon/watch.py) 9' > $file")
    with Spy(idle, tmp_path, 0.1, 10) as spy:
        spy.begin([os.getpid()], [os.getpid()])
        with pytest.raises(CannotMeasure, match="saw a daemon do nothing but wait"):
            spy.stacks()


def test_a_sampler_that_goes_on_is_ended(tmp_path: Path) -> None:
    endless = program(tmp_path, "exec sleep 1000")
    with Spy(endless, tmp_path, 0.1, 10) as spy:
        spy.begin([os.getpid()], [os.getpid()])
        assert len(descendants()) == 2
    assert not descendants()


def test_two_daemons_are_loaded_twice_looked_at_and_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sampler = program(
        tmp_path,
        "tr '\\0' ' ' < /proc/$3/cmdline >> $0.seen",
        "echo 'Sealer.seal (evensong/daemon/seal.py) 9' > $file",
    )
    words = ["--nodes", "2", "--seconds", "0.2", "--py-spy", sampler, "--json"]
    assert profile.main(words) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["samples"] == {DAEMON: 9, CLIENT: 9}
    assert told["delivered_per_s"] > 0
    assert told["cpu_us_per_message"][DAEMON] > 0
    seen = (tmp_path / "py-spy.seen").read_text()
    assert seen.count("evensong.cli.main daemon") == seen.count("evensong.bench.member") == 1
    assert not descendants()

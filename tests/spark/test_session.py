import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import evensong
from evensong.errors import SparkFailed, SparkUnavailable
from evensong.spark.archive import archive_of
from evensong.spark.java import find_java
from evensong.spark.session import add_spark_options, open_session, session, session_from

SOURCES = str(Path(evensong.__file__).parent.parent)


def run_apart(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, whose Java is its own too."""
    environment = {**os.environ, "PYTHONPATH": SOURCES, **variables}
    environment = {name: value for name, value in environment.items() if value}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_spark_options(parser)
    return parser.parse_args(arguments)


def test_a_session_counts(spark: SparkSession) -> None:
    assert spark.range(1000).groupBy("id").count().count() == 1000


def test_a_session_is_as_it_was_asked_for(spark: SparkSession) -> None:
    assert spark.sparkContext.master == "local[2]"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "1"
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"


def test_functions_in_python_run_on_our_interpreter(spark: SparkSession) -> None:
    def interpreter(_: int) -> tuple[str, str]:
        import sys

        import evensong

        return sys.executable, evensong.__version__

    found = spark.sparkContext.parallelize([0], 1).map(interpreter).collect()
    assert found == [(sys.executable, evensong.__version__)]


def test_who_opens_a_session_twice_has_one(spark: SparkSession) -> None:
    assert open_session("again", master="local[1]").sparkContext is spark.sparkContext


def test_a_session_that_was_running_goes_on_after(spark: SparkSession) -> None:
    with session("inner") as inner:
        assert inner.range(3).count() == 3
    assert spark.range(4).count() == 4


def test_a_failure_of_spark_comes_out_with_its_cause_and_is_told_once(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SparkFailed, match="Division by zero"), session("inner"):
        spark.range(1).select(F.lit(1) / F.col("id")).collect()
    assert capfd.readouterr().err == ""


def test_a_failure_of_a_function_in_python_comes_out_with_its_cause(spark: SparkSession) -> None:
    def fail(number: int) -> int:
        raise ValueError(f"seed {number} is bad")

    with pytest.raises(SparkFailed, match="ValueError: seed 0 is bad"), session("inner"):
        spark.sparkContext.parallelize([0], 1).map(fail).collect()


@pytest.mark.usefixtures("spark")
def test_a_failure_of_ours_comes_out_as_it_is() -> None:
    with pytest.raises(KeyError), session("inner"):
        raise KeyError("ours")


@pytest.mark.usefixtures("spark")
def test_what_breaks_while_an_interrupt_is_answered_is_the_interrupt() -> None:
    def tidy_up() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise Py4JNetworkError("the connection was in use")  # as it happens to PySpark

    with pytest.raises(KeyboardInterrupt), session("inner"):
        tidy_up()


def test_the_environment_is_as_before(spark: SparkSession) -> None:
    assert spark.sparkContext.master == "local[2]"
    assert "SPARK_LOCAL_IP" not in os.environ


def test_options_become_settings() -> None:
    args = options(
        "--master", "local[1]", "--conf", "spark.a=b=c", "--conf", "spark.d=", "--driver-memory=2G"
    )
    assert args.master == "local[1]"
    assert args.conf == [("spark.a", "b=c"), ("spark.d", "")]
    assert args.driver_memory == "2g"


@pytest.mark.usefixtures("spark")
def test_options_open_a_session() -> None:
    with session_from(options(), "inner") as inner:
        assert inner.range(3).count() == 3


@pytest.mark.parametrize(
    "arguments",
    [("--conf", "spark.a"), ("--conf", "a=b"), ("--driver-memory", "much"), ("--driver-memory=4",)],
)
def test_an_option_that_cannot_be_read_is_told(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        options(*arguments)
    assert stopped.value.code == 2
    assert "is not" in capsys.readouterr().err


def test_without_pyspark_its_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(SparkUnavailable, match=r"pip install 'evensong\[spark\]'"):
        open_session("none")


def test_importing_the_module_imports_no_pyspark() -> None:
    done = run_apart("import sys, evensong.spark.session; sys.exit('pyspark' in sys.modules)")
    assert done.returncode == 0


COUNT = """
from evensong.spark.session import session
with session("apart", master="local[1]", conf={"spark.driver.memory": "1g"}, quick=True) as spark:
    print(spark.range(1000).groupBy("id").count().count())
    print(spark.sparkContext._jvm.System.getProperty("java.version"))
"""


def test_without_a_java_of_the_machine_the_packaged_one_counts(tmp_path: Path) -> None:
    programs, temporary = tmp_path / "programs", tmp_path / "temporary"
    programs.mkdir()
    temporary.mkdir()
    for name in ("bash", "sh", "env", "dirname", "basename", "uname", "ps", "cat", "python3"):
        program = shutil.which(name)
        if program is not None:
            (programs / name).symlink_to(program)
    done = run_apart(COUNT, PATH=str(programs), JAVA_HOME="", TMPDIR=str(temporary))
    packaged = find_java({"PATH": str(programs)}).version
    count, _, version = done.stdout.partition("\n")
    assert (done.returncode, done.stderr, count) == (0, "", "1000")
    assert int(version.partition(".")[0]) == packaged
    assert list(temporary.glob("evensong-*")) == []  # a log that nobody needs is gone


def test_an_archive_that_is_broken_is_not_used(tmp_path: Path) -> None:
    virtual = tmp_path / "virtual"
    virtual.mkdir()
    program = f"""
import sys
sys.prefix = {str(virtual)!r}
from evensong.spark.archive import archive_of
from evensong.spark.java import find_java
archive = archive_of(find_java())
archive.parent.mkdir(parents=True, exist_ok=True)
archive.write_bytes(b"half an archive")
{COUNT}"""
    done = run_apart(program)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1000\n")


def test_an_archive_is_of_one_java_and_one_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    java = find_java()
    assert archive_of(java) == archive_of(java)
    assert archive_of(java) != archive_of(java._replace(description="another build"))
    before = archive_of(java)
    monkeypatch.setattr("pyspark.__version__", "4.9.9")
    assert archive_of(java) != before


def test_a_java_that_is_killed_is_told_and_its_log_stays(tmp_path: Path) -> None:
    program = """
import os, signal
from pyspark import SparkContext
from evensong.errors import SparkFailed
from evensong.spark.session import session
try:
    with session("apart", master="local[1]", quick=True) as spark:
        spark.sparkContext.parallelize([0], 1).map(str).collect()  # PySpark listens to tasks now
        process = SparkContext._gateway.proc
        process.kill()
        process.wait()
        spark.range(1).count()
except SparkFailed as failure:
    print(failure)
"""
    done = run_apart(program, TMPDIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "the Java process of Spark was killed" in done.stdout


DIES_EARLY = """
from pyspark import SparkContext
from pyspark.sql import SparkSession
from evensong.errors import SparkUnavailable
from evensong.spark.session import session

def killing(step, gateway_of):
    def kill_first(*args, **kwargs):
        process = gateway_of(kwargs).proc
        process.kill()
        process.wait()
        return step(*args, **kwargs)
    return kill_first

{patch}
try:
    with session("apart", master="local[1]", quick=True):
        pass
except SparkUnavailable as failure:
    print(failure)
"""
BEFORE_THE_CONTEXT = (
    "SparkContext._ensure_initialized = killing(SparkContext._ensure_initialized, lambda given: "
    'given.get("gateway") or SparkContext._gateway)'
)
AFTER_THE_CONTEXT = (
    "SparkSession.__init__ = killing(SparkSession.__init__, lambda _: SparkContext._gateway)"
)


@pytest.mark.parametrize(
    "patch", [BEFORE_THE_CONTEXT, AFTER_THE_CONTEXT], ids=["before the context", "after it"]
)
def test_a_java_that_is_killed_while_spark_starts_is_told(patch: str, tmp_path: Path) -> None:
    done = run_apart(DIES_EARLY.replace("{patch}", patch), TMPDIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Spark does not start: the Java process of Spark was killed")
    assert done.stdout.count("\n") == 1


def test_a_java_that_cannot_start_says_why(tmp_path: Path) -> None:
    program = """
from evensong.errors import SparkUnavailable
from evensong.spark.session import session
try:
    with session("apart", conf={"spark.driver.memory": "900000000g"}):
        pass
except SparkUnavailable as failure:
    print(failure)
"""
    done = run_apart(program, TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "does not start" in done.stdout
    assert "heap" in done.stdout
    assert done.stdout.count("\n") == 1


def test_without_room_for_java_it_is_not_waited_for(tmp_path: Path) -> None:
    program = """
import resource
from evensong.errors import SparkUnavailable
from evensong.spark.session import session
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # as on a disk that is nearly full
try:
    with session("apart", master="local[1]"):
        pass
except SparkUnavailable as failure:
    print(failure)
"""
    done = run_apart(program, TMPDIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Java for Spark needs room in {tmp_path}: ")
    assert list(tmp_path.iterdir()) == []


def test_a_java_without_enough_memory_says_so_and_writes_no_stack(tmp_path: Path) -> None:
    program = """
from evensong.errors import SparkFailed
from evensong.spark.session import session
try:
    with session("apart", master="local[1]", conf={"spark.driver.memory": "512m"}, quick=True) as s:
        s.range(1).selectExpr("size(array_repeat(id, 2000000000 - int(id)))").collect()
except SparkFailed as failure:
    print(failure)
"""
    done = run_apart(program, TMPDIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Spark ran out of memory (512m); --driver-memory gives it more")

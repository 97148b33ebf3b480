"""`evensong up`: a cluster of daemons on this machine, gone with the command."""

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, final

from evensong.cli.command import EXIT_OK, EXIT_UNREACHABLE, Subparsers, add_command
from evensong.core.engine import ENGINES, SETTLED, TOTEM
from evensong.errors import BadSettings, Unreachable

NODES: Final = 3
NODES_MAX: Final = 32
PROFILE: Final = "lan"
TRACE: Final = "views"
CONFIG: Final = re.compile(r"n([0-9]+)\.toml")
READY_S: Final = 30.0
STOP_S: Final = 10.0
POLL_S: Final = 0.05
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "up",
        run,
        summary="start a local cluster of daemons; Ctrl-C stops it",
        example="evensong up --nodes 3 --dir cluster",
    )
    parser.add_argument(
        "--nodes", type=_nodes, metavar="N", help=f"daemons, up to {NODES_MAX} (default: {NODES})"
    )
    parser.add_argument(
        "--dir",
        type=Path,
        metavar="DIR",
        help="settings, key, state and logs go there and stay (default: a directory that goes); "
        "a cluster that is there is started as it is",
    )
    parser.add_argument("--insecure", action="store_true", help="without a key")
    parser.add_argument(
        "--profile", choices=["fast", "lan", "wan"], help=f"timeouts (default: {PROFILE})"
    )
    parser.add_argument(
        "--engine", choices=ENGINES, help=f"what orders messages (default: {TOTEM})"
    )
    parser.add_argument(
        "--trace",
        choices=["off", "views", "events"],
        help="what the daemons write down (default: views); messages can be checked with events",
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON when it is up")


def _nodes(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= NODES_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not within 1 to {NODES_MAX}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Start the cluster, say how to talk to it, and wait for Ctrl-C."""
    with ExitStack() as stack:
        stack.enter_context(interruptible())
        if args.dir is None:
            made = stack.enter_context(tempfile.TemporaryDirectory(prefix="evensong-"))
            directory = Path(made)
        else:
            directory = args.dir.resolve()
        configs = _found(directory, args) or lay_out(
            directory,
            args.nodes or NODES,
            args.profile or PROFILE,
            is_insecure=args.insecure,
            extra=f'trace = "{args.trace or TRACE}"\nengine = "{args.engine or TOTEM}"',
        )
        cluster = Cluster(configs)
        try:
            cluster.start()
            cluster.wait_for_one_ring()
            print(_told(directory, cluster, as_json=args.json), flush=True)
            for loss in cluster.losses():
                print(f"evensong: {loss}", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            return EXIT_OK
        finally:
            cluster.stop()
    print("evensong: no daemon is left", file=sys.stderr)
    return EXIT_UNREACHABLE


def _found(directory: Path, args: argparse.Namespace) -> list[Path]:
    """Return the settings of a cluster that was laid out before, if it is what is asked for."""
    from evensong.daemon.settings import load

    found = [path for path in directory.glob("n*.toml") if CONFIG.fullmatch(path.name)]
    configs = sorted(found, key=lambda path: int(path.stem[1:]))
    if configs and args.nodes not in (None, len(configs)):
        raise BadSettings(f"{directory}: holds a cluster of {len(configs)} nodes, not {args.nodes}")
    for config in configs:
        settings = load(config)
        for option, wanted, there in (
            ("--profile", args.profile, settings.profile),
            ("--trace", args.trace, settings.trace),
            ("--engine", args.engine, settings.engine),
        ):
            if wanted not in (None, there):
                raise BadSettings(
                    f"{config}: says {there}, not {option} {wanted}; change it there, "
                    "or choose another directory"
                )
        if args.insecure and settings.keys:
            raise BadSettings(f"{config}: has keys, against --insecure; choose another directory")
    return configs


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGINT interrupt what is done meanwhile; a shell's `&` ignores SIGINT.

    Once: what follows is tidying up, which ends by itself and is not interrupted again.
    """
    with ExitStack() as stack:
        for number in SIGNALS:
            stack.callback(signal.signal, number, signal.signal(number, _interrupt))
        yield


def _interrupt(_number: int, _frame: object) -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def lay_out(
    directory: Path, nodes: int, profile: str, *, is_insecure: bool, extra: str = ""
) -> list[Path]:
    """Write key, settings (with extra lines) and state directories; return the settings files."""
    from evensong.daemon.keys import write_new_key

    configs = [directory / f"n{node}.toml" for node in range(1, nodes + 1)]
    directory.mkdir(parents=True, exist_ok=True)
    key = directory / "cluster.key"
    if not is_insecure and not key.exists():
        write_new_key(key)
    peers = "\n".join(
        f'{node} = "127.0.0.1:{port}"' for node, port in enumerate(_free_ports(nodes), start=1)
    )
    seal = "insecure = true" if is_insecure else 'keys = ["cluster.key"]'
    for node, config in enumerate(configs, start=1):
        (directory / f"n{node}").mkdir(exist_ok=True)
        config.write_text(
            f'cluster = "up"\nnode = {node}\nstate = "n{node}"\n{seal}\nprofile = "{profile}"\n'
            f"{extra}\n"
            f"[peers]\n{peers}\n"
        )
    return configs


def _free_ports(count: int) -> list[int]:
    """Return ports that are free now; all are held until the last is chosen."""
    with ExitStack() as stack:
        ports: list[int] = []
        for _ in range(count):
            probe = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
        return ports


@final
class Cluster:
    """The daemons of one `up`, as processes."""

    def __init__(self, configs: list[Path]) -> None:
        self._configs: Final = configs
        self.processes: Final[dict[Path, subprocess.Popen[bytes]]] = {}

    def start(self) -> None:
        """Start every daemon, unless one of them runs already."""
        from evensong.daemon.main import lock_state

        for config in self._configs:
            os.close(lock_state(self.state_of(config)))
        for config in self._configs:
            self.start_one(config)

    def start_one(self, config: Path) -> None:
        """Start a daemon; it ends when our end of its standard input is closed."""
        with (self.state_of(config) / "log").open("ab") as log:
            self.processes[config] = subprocess.Popen(
                [sys.executable, "-m", "evensong.cli.main", "daemon", "--until-eof", config],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us; we tell them
            )

    def kill(self, config: Path) -> None:
        """Kill a daemon on the spot, as `kill -9` does."""
        one = self.processes.pop(config)
        one.kill()
        one.wait()
        assert one.stdin is not None
        one.stdin.close()

    def state_of(self, config: Path) -> Path:
        """Return a daemon's state directory."""
        return config.with_suffix("")

    def gone(self) -> str:
        """Return the name of a daemon that has stopped by itself, if any."""
        return next((c.stem for c, one in self.processes.items() if one.poll() is not None), "")

    def wait_for_one_ring(self, configs: Sequence[Path] = ()) -> str:
        """Return the ring's id when these daemons, or all, and nobody else are in one ring."""
        members = configs or self._configs
        until = time.monotonic() + READY_S
        while True:
            gone = self.gone()
            if gone:
                log = self.state_of(self._configs[0]).parent / gone / "log"
                last = log.read_text().strip().splitlines()[-1:]
                raise Unreachable(f"{gone} has stopped: {' '.join(last)}")
            ring = self._ring_of(members)
            if ring:
                return ring
            if time.monotonic() > until:
                named = " ".join(config.stem for config in members)
                raise Unreachable(f"no ring of {named} within {READY_S:.0f} s")
            time.sleep(POLL_S)

    def _ring_of(self, configs: Sequence[Path]) -> str:
        """Return the ring that these daemons are in and nobody else; empty if there is none."""
        from evensong.daemon.control import ask

        rings = set()
        for config in configs:
            try:
                status = ask(self.state_of(config), {"do": "status"})
            except Unreachable:
                return ""
            members = status["members"]
            if status["state"] not in SETTLED or not isinstance(members, list):
                return ""
            rings.add((str(status["ring"]), len(members)))
        ring, size = rings.pop()
        return ring if not rings and size == len(configs) else ""

    def losses(self) -> Iterator[str]:
        """Tell of each daemon that stops by itself, when it does, until none is left."""
        while self.processes:
            ended = [config for config, one in self.processes.items() if one.poll() is not None]
            for config in ended:
                one = self.processes.pop(config)
                assert one.stdin is not None
                one.stdin.close()
                yield _loss(config, one.returncode)
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Stop every daemon: in good order, or by force after a while."""
        for one in self.processes.values():
            if one.poll() is None:
                one.terminate()
        until = time.monotonic() + STOP_S
        for one in self.processes.values():
            try:
                one.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
            assert one.stdin is not None
            one.stdin.close()


def _loss(config: Path, code: int) -> str:
    if code > 0:
        return f"{config.stem} stopped with code {code}; its log says why"
    how = f"was killed by signal {-code}" if code else "left in good order"
    return f"{config.stem} {how}; start it again: evensong daemon {config}"


def _told(directory: Path, cluster: Cluster, *, as_json: bool) -> str:
    if as_json:
        daemons = [
            {"name": config.stem, "config": str(config), "pid": one.pid}
            for config, one in cluster.processes.items()
        ]
        return json.dumps({"directory": str(directory), "pid": os.getpid(), "daemons": daemons})
    lines = [f"{len(cluster.processes)} daemons are together; Ctrl-C stops them"]
    lines += [
        f"  {config.stem}  pid {one.pid}  evensong status {config}"
        for config, one in cluster.processes.items()
    ]
    lines.append(f"  all  evensong status --all {directory}")
    lines.append(f"  logs {directory}/n*/log")
    first = min(cluster.processes)
    lines.append(f"  try  evensong recv {first} chat")
    return "\n".join(lines)

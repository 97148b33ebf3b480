"""`evensong up`: a cluster of daemons on this machine, gone with the command."""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final, final

from evensong.cli.command import EXIT_OK, EXIT_UNREACHABLE, Subparsers, add_command
from evensong.errors import BadSettings, Unreachable

NODES_MAX: Final = 32
READY_S: Final = 30.0
STOP_S: Final = 10.0
POLL_S: Final = 0.05


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "up",
        run,
        summary="start a local cluster of daemons; Ctrl-C stops it",
        example="evensong up --nodes 3",
    )
    parser.add_argument("--nodes", type=_nodes, default=3, metavar="N", help="daemons (default: 3)")
    parser.add_argument(
        "--dir",
        type=Path,
        metavar="DIR",
        help="settings, key, state and logs go there and stay (default: a directory that goes)",
    )
    parser.add_argument("--insecure", action="store_true", help="without a key")
    parser.add_argument(
        "--profile", choices=["fast", "lan", "wan"], default="lan", help="timeouts (default: lan)"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON when it is up")


def _nodes(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= NODES_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not within 1 to {NODES_MAX}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Start the cluster, say how to talk to it, and wait for Ctrl-C."""
    with ExitStack() as stack:
        if args.dir is None:
            made = stack.enter_context(tempfile.TemporaryDirectory(prefix="evensong-"))
            directory = Path(made)
        else:
            directory = args.dir.resolve()
        configs = lay_out(directory, args.nodes, args.profile, is_insecure=args.insecure)
        for number in (signal.SIGTERM, signal.SIGINT):  # SIGINT too: a shell's `&` ignores it
            stack.callback(signal.signal, number, signal.signal(number, _interrupt))
        cluster = Cluster(configs)
        try:
            cluster.start()
            cluster.wait_for_one_ring()
            print(_told(directory, cluster, as_json=args.json), flush=True)
            gone = cluster.wait()
        except KeyboardInterrupt:
            gone = ""
        finally:
            cluster.stop()
    if gone:
        print(f"evensong: {gone} has stopped; its log says why", file=sys.stderr)
        return EXIT_UNREACHABLE
    return EXIT_OK


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def lay_out(
    directory: Path, nodes: int, profile: str, *, is_insecure: bool, extra: str = ""
) -> list[Path]:
    """Write key, settings (with extra lines) and state directories; return the settings files.

    A directory that was laid out before is used as it is: its daemons start where they stopped.
    """
    from evensong.daemon.keys import write_new_key

    configs = [directory / f"n{node}.toml" for node in range(1, nodes + 1)]
    if any(config.exists() for config in configs):
        found = sorted(directory.glob("n*.toml"))
        if found != sorted(configs):
            raise BadSettings(f"{directory}: holds a cluster of {len(found)} nodes, not {nodes}")
        return configs
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
        """Start every daemon; each ends when our end of its standard input is closed."""
        for config in self._configs:
            with (self.state_of(config) / "log").open("ab") as log:
                self.processes[config] = subprocess.Popen(
                    [sys.executable, "-m", "evensong.cli.main", "daemon", "--until-eof", config],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C is for us; we tell them
                )

    def state_of(self, config: Path) -> Path:
        """Return a daemon's state directory."""
        return config.with_suffix("")

    def gone(self) -> str:
        """Return the name of a daemon that has stopped by itself, if any."""
        return next((c.stem for c, one in self.processes.items() if one.poll() is not None), "")

    def wait_for_one_ring(self) -> None:
        """Return when all daemons are in one ring."""
        until = time.monotonic() + READY_S
        while not self._is_one_ring():
            gone = self.gone()
            if gone:
                log = self.state_of(self._configs[0]).parent / gone / "log"
                last = log.read_text().strip().splitlines()[-1:]
                raise Unreachable(f"{gone} did not start: {' '.join(last)}")
            if time.monotonic() > until:
                raise Unreachable(f"no ring of all daemons within {READY_S:.0f} s")
            time.sleep(POLL_S)

    def _is_one_ring(self) -> bool:
        from evensong.daemon.control import ask

        rings = set()
        for config in self._configs:
            try:
                status = ask(self.state_of(config), {"do": "status"})
            except Unreachable:
                return False
            members = status["members"]
            if status["state"] != "operational" or not isinstance(members, list):
                return False
            rings.add((status["ring"], len(members)))
        return len(rings) == 1 and next(iter(rings))[1] == len(self._configs)

    def wait(self) -> str:
        """Wait until a daemon stops by itself; return its name."""
        while not self.gone():
            time.sleep(POLL_S)
        return self.gone()

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


def _told(directory: Path, cluster: Cluster, *, as_json: bool) -> str:
    if as_json:
        daemons = [
            {"name": config.stem, "config": str(config), "pid": one.pid}
            for config, one in cluster.processes.items()
        ]
        return json.dumps({"directory": str(directory), "pid": os.getpid(), "daemons": daemons})
    lines = [f"{len(cluster.processes)} daemons in one ring; Ctrl-C stops them"]
    lines += [
        f"  {config.stem}  pid {one.pid}  evensong status {config}"
        for config, one in cluster.processes.items()
    ]
    lines.append(f"  all  evensong status --all {directory}")
    lines.append(f"  logs {directory}/n*/log")
    return "\n".join(lines)

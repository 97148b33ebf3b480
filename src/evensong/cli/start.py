"""Where the `evensong` command begins: Ctrl-C is answered in one line, also while modules load."""

import sys


def start() -> int:
    """Run the command line; return its exit code."""
    try:
        from evensong.cli.main import main

        return main()
    except KeyboardInterrupt:
        print("evensong: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(start())

"""`python -m evensong`: the command."""

import sys

from evensong.cli.start import start

if __name__ == "__main__":
    sys.exit(start())

"""`evensong completion`: what a shell needs to complete command lines of `evensong`."""

import argparse
from typing import Final

from evensong.cli.command import EXIT_OK, Subparsers, add_command
from evensong.cli.shells import SHELLS

HOW: Final = """
for the shell you are in:
  bash  source <(evensong completion bash)
  zsh   source <(evensong completion zsh), after compinit
  fish  evensong completion fish | source

for all to come, in a file (its directory may have to be made first):
  bash  evensong completion bash > ~/.local/share/bash-completion/completions/evensong
  zsh   evensong completion zsh > DIR/_evensong, where DIR is in $fpath
  fish  evensong completion fish > ~/.config/fish/completions/evensong.fish"""


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "completion",
        run,
        summary="print a script that lets a shell complete commands, options and their values",
        example="evensong completion bash > evensong.bash && source evensong.bash",
    )
    parser.epilog = f"{parser.epilog}\n{HOW}"
    parser.add_argument("shell", choices=list(SHELLS), help="the shell that is to read it")


def run(args: argparse.Namespace) -> int:
    """Print the script, made from the parser that reads this very command line."""
    from evensong.cli.grammar import read_grammar
    from evensong.cli.main import COMMANDS, build_parser

    print(SHELLS[args.shell](read_grammar(build_parser(COMMANDS))), end="")
    return EXIT_OK

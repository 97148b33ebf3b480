"""Completion scripts for bash, zsh and fish, each written from the command line's grammar.

All rest on one thing: no option of `evensong` itself takes a value, so the first words name the
command. A script is static; asking the program at each tab would cost its start each time.
"""

import re
from collections.abc import Callable
from typing import Final

from evensong.cli.grammar import Argument, Entry, Kind, Option, Value, entries

BASH: Final = """\
# Completion of evensong for bash, made by `evensong completion bash`.
_evensong() {
    local cur=${COMP_WORDS[COMP_CWORD]} path=evensong last= place=0 words= files= options= i word
    COMPREPLY=()
    if [[ $cur == = ]]; then cur=; fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == = ]]; then continue; fi  # --option=value comes as three words
        if [[ $last ]]; then last=; continue; fi
        case "$path $word" in
            %(with_value)s) last=$word ;;
            %(paths)s) path+=" $word" ;;
            *" -"*) ;;
            *) ((place += 1)) ;;
        esac
    done
    case $path in
%(options)s
    esac
    if [[ $last ]]; then
        case "$path $last" in
%(values)s
        esac
    elif [[ $cur == -* ]]; then
        words=$options
    else
        words=$options
        case "$path $place" in
%(places)s
        esac
    fi
    if [[ $files ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen "$files" -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    fi
}
complete -F _evensong evensong
"""
BASH_FILES: Final = {Kind.FILE: "-f", Kind.DIRECTORY: "-d"}

ZSH_HEAD: Final = """\
#compdef evensong
# Completion of evensong for zsh, made by `evensong completion zsh`.
"""
ZSH_FOOT: Final = """\
if [[ $funcstack[1] == _evensong ]]; then
    _evensong "$@"
else
    compdef _evensong evensong
fi
"""
ZSH_FILES: Final = {Kind.FILE: "_files", Kind.DIRECTORY: "_files -/", Kind.TEXT: " "}

FISH_HEAD: Final = """\
# Completion of evensong for fish, made by `evensong completion fish`.
function __evensong_at
    set -l words (commandline -opc)[2..]
    set -l depth (count $argv)
    test (count $words) -ge $depth; and test "$words[1..$depth]" = "$argv"
end
function __evensong_just_at
    __evensong_at $argv; and test (count (commandline -opc)) -eq (math (count $argv) + 1)
end
complete -c evensong -f
"""


def bash(root: Entry) -> str:
    """Return the script for bash."""
    all_entries = entries(root)
    with_value = [
        f"{_path(entry)} {flag}"
        for entry in all_entries
        for option in entry.options
        for flag in option.flags
        if option.value
    ]
    options, values, places = [], [], []
    for entry in all_entries:
        flags = " ".join(option.flags[-1] for option in entry.options)
        options.append(f"        {_quoted(_path(entry))}) options={_quoted(flags)} ;;")
        for option in entry.options:
            if option.value and option.value.kind is not Kind.TEXT:
                names = _either([f"{_path(entry)} {flag}" for flag in option.flags])
                values.append(f"            {names}) {_bash_value(option.value)} ;;")
        if entry.below:
            below = Value(Kind.WORD, "command", tuple(one.path[-1] for one in entry.below))
            places.append(_bash_place(entry, "0", below))
        for number, argument in enumerate(entry.arguments):
            place = "*" if argument.repeats else str(number)
            places.append(_bash_place(entry, place, argument.value))
    return BASH % {
        "with_value": _either(with_value),
        "paths": _either([_path(entry) for entry in all_entries[1:]]),
        "options": "\n".join(options),
        "values": "\n".join(values),
        "places": "\n".join(places),
    }


def _bash_place(entry: Entry, place: str, value: Value) -> str:
    head = f"{_path(entry)} "
    where = _quoted(head) + place if place == "*" else _quoted(head + place)
    return f"            {where}) {_bash_value(value)} ;;"


def _bash_value(value: Value) -> str:
    if value.kind is Kind.TEXT:
        return ":"
    if value.kind is Kind.WORD:
        return f"words={_quoted(' '.join(value.words))}"
    return f"files={BASH_FILES[value.kind]}"


def zsh(root: Entry) -> str:
    """Return the script for zsh."""
    return "\n".join([ZSH_HEAD, *map(_zsh_function, reversed(entries(root))), ZSH_FOOT])


def _zsh_function(entry: Entry) -> str:
    specs = [spec for option in entry.options for spec in _zsh_options(option)]
    specs += [_zsh_argument(place, one) for place, one in enumerate(entry.arguments, start=1)]
    if entry.below:
        specs += ["'1:command:->command'", "'*::argument:->argument'"]
    lines = [f"{_function(entry)}() {{"]
    if entry.below:
        lines += ['    local curcontext="$curcontext" state line ret=1']
        lines += ["    local -a commands", "    typeset -A opt_args", "    commands=("]
        lines += [f"        {_quoted(_zsh_command(one))}" for one in entry.below]
        lines += ["    )"]
    lines += ["    _arguments -C \\"]
    lines += [f"        {spec} \\" for spec in specs]
    lines += ["        && ret=0" if entry.below else "        && return 0"]
    if entry.below:
        lines += ["    case $state in"]
        lines += ["        command) _describe -t commands command commands && ret=0 ;;"]
        lines += ["        argument)", "            case $line[1] in"]
        lines += [
            f"                {one.path[-1]}) {_function(one)} && ret=0 ;;" for one in entry.below
        ]
        lines += ["            esac ;;", "    esac", "    return ret"]
    return "\n".join([*lines, "}", ""])


def _zsh_command(entry: Entry) -> str:
    return f"{entry.path[-1]}:{entry.about}"


def _zsh_options(option: Option) -> list[str]:
    value = f":{_zsh_value(option.value)}" if option.value else ""
    about = re.sub(r"([\[\]\\])", r"\\\1", option.about)
    return [
        _quoted(f"{flag}{'=' if value and flag.startswith('--') else ''}[{about}]{value}")
        for flag in option.flags
    ]


def _zsh_argument(place: int, argument: Argument) -> str:
    return _quoted(f"{'*' if argument.repeats else place}:{_zsh_value(argument.value)}")


def _zsh_value(value: Value) -> str:
    if value.kind is Kind.WORD:
        return f"{value.name}:({' '.join(value.words)})"
    return f"{value.name}:{ZSH_FILES[value.kind]}"


def fish(root: Entry) -> str:
    """Return the script for fish."""
    return FISH_HEAD + "".join(f"{line}\n" for entry in entries(root) for line in _fish(entry))


def _fish(entry: Entry) -> list[str]:
    names = " ".join(entry.path[1:])
    at = _fish_if(f"__evensong_at {names}" if names else "__fish_use_subcommand")
    just_at = _fish_if(f"__evensong_just_at {names}" if names else "__fish_use_subcommand")
    lines = [
        f"complete -c evensong {just_at} -a {one.path[-1]} -d {_fish_quoted(one.about)}"
        for one in entry.below
    ]
    later = _fish_if(f"__evensong_at {names}; and not __evensong_just_at {names}")
    for place, (value, _) in enumerate(entry.arguments):
        if value.kind is Kind.WORD:
            words = _fish_quoted(" ".join(value.words))
            lines.append(f"complete -c evensong {just_at} -a {words}")
        elif value.kind is Kind.FILE:
            lines.append(f"complete -c evensong {later if place else at} -F")
    for option in entry.options:
        flags = " ".join(
            f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags
        )
        value_text = _fish_value(option.value) if option.value else ""
        about = _fish_quoted(option.about)
        lines.append(f"complete -c evensong {at} {flags}{value_text} -d {about}")
    return lines


def _fish_value(value: Value) -> str:
    if value.kind is Kind.WORD:
        return f" -x -a {_fish_quoted(' '.join(value.words))}"
    if value.kind is Kind.DIRECTORY:
        return " -x -a '(__fish_complete_directories)'"
    return " -r -F" if value.kind is Kind.FILE else " -x"


def _fish_if(condition: str) -> str:
    return f"-n {_fish_quoted(condition)}"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _path(entry: Entry) -> str:
    return " ".join(entry.path)


def _function(entry: Entry) -> str:
    return "_" + "_".join(entry.path)


def _either(words: list[str]) -> str:
    return " | ".join(map(_quoted, words))


def _quoted(text: str) -> str:
    """Quote for bash and zsh."""
    return "'" + text.replace("'", "'\\''") + "'"


SHELLS: Final[dict[str, Callable[[Entry], str]]] = {"bash": bash, "zsh": zsh, "fish": fish}

"""docs/reference/commands.md, from the commands of the command line."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

import typer

from penstock.engine.cli.command_line import command_line
from penstock.engine.cli.examples import EXAMPLES
from penstock.proto.options.registry import OPTIONS
from reference.rendering import Page, code, described, table

HEAD = """[Command line](cli.md) describes the output of each command. [Errors](errors.md) lists the exit codes. Every
command has `--help`. A group of commands without a command prints its help.

"""

_OPTIONS = {option.python_name: option for option in OPTIONS}


def page() -> Page:
    """The page."""
    root: Any = typer.main.get_command(command_line())
    every = list(commands(root, ()))
    overview = table(
        ("command", "what it does"),
        (
            (f"[`penstock {path}`](#penstock-{path.replace(' ', '-')})", first(described(path, command.help)))
            for path, command in every
        ),
    )
    settings = "## Before the command\n\n" + flags("penstock", root.params)
    body = HEAD + overview + "\n" + settings + "".join(f"\n{section(path, command)}" for path, command in every)
    about = "every command, argument and flag with its default"
    return Page("commands", "Commands", about, "the commands in engine/cli/", body)


def commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """(path without `penstock`, command) of each command."""
    for name, inner in getattr(command, "commands", {}).items():
        described(f"command {' '.join((*path, name))}", inner.help)
        if getattr(inner, "commands", None):
            yield from commands(inner, (*path, name))
        else:
            yield " ".join((*path, name)), inner


def first(text: str) -> str:
    """The first sentence."""
    return text.partition(". ")[0].rstrip(".") + "."


def section(path: str, command: Any) -> str:
    """One command."""
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    usage = " ".join(["penstock", path, *(argument.metavar for argument in arguments)])
    lines = [
        f"- {code(argument.metavar)}: {described(f'argument {argument.name} of {path}', argument.help)}"
        for argument in arguments
    ]
    examples = EXAMPLES.get(path) or described(f"example of {path}", "")
    options = [each for each in command.params if each.param_type_name == "option"]
    parts = [
        f"## penstock {path}",
        described(f"command {path}", command.help),
        code(usage + (" [OPTIONS]" if options else "")),
        "\n".join(lines),
        flags(path, [each for each in options if not of_registry(each)]).rstrip(),
        registered([each for each in options if of_registry(each)]),
        "For example:\n\n" + "\n".join(f"- {code(line)}" for line in examples),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def of_registry(flag: Any) -> bool:
    """Whether the flag is an option of the registry, which has its own page."""
    option = _OPTIONS.get(flag.name)
    return option is not None and flag.help == option.doc


def registered(options: list[Any]) -> str:
    """The flags that are options of the registry."""
    if not options:
        return ""
    return "As in [options](options.md): " + ", ".join(code(flag.opts[0]) for flag in options) + "."


def flags(path: str, options: list[Any]) -> str:
    """The table of a command's own flags; empty without flags."""
    if not options:
        return ""
    return table(("flag", "default", "what it does"), (row(path, flag) for flag in options))


def row(path: str, flag: Any) -> tuple[str, ...]:
    """The row of one flag."""
    names = sorted(flag.opts, key=len, reverse=True)
    main_name = code(f"{names[0]} {'' if flag.is_flag or flag.count else form(flag)}".strip())
    more = "".join(f", {code(name)}" for name in names[1:])
    again = " Can be repeated." if flag.multiple and "repeated" not in flag.help else ""
    default = "required" if flag.required else default_text(flag.default)
    return main_name + more, default, described(f"flag {names[0]} of {path}", flag.help) + again


def form(flag: Any) -> str:
    """The placeholder of the flag's value."""
    kind = flag.type_descriptor.annotation
    words = [each.value for each in kind] if isinstance(kind, enum.EnumType) else []
    return flag.metavar or "|".join(words) or "TEXT"


def default_text(value: object) -> str:
    """A default, in the form in which a user types it."""
    match value:
        case enum.Enum():
            return code(value.value)
        case None | "" | () | []:
            return "none"
        case bool():
            return "on" if value else "off"
        case _ if callable(value):
            return "none"
        case int() | float():
            return code(f"{value:g}")
        case _:
            return code(value)

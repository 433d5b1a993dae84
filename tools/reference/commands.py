"""docs/reference/commands.md, from the command line itself."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

import typer

from penstock.engine.cli.examples import EXAMPLES
from penstock.engine.cli.main import app
from penstock.proto.options.registry import OPTIONS
from reference.rendering import Page, code, described, table

HEAD = """What they print, and how they behave: [the command line](cli.md). Exit codes: [errors](errors.md). Every
command has `--help`, families of commands show it when they are called alone.

"""

_OPTIONS = {option.python_name: option for option in OPTIONS}


def page() -> Page:
    """The page."""
    root: Any = typer.main.get_command(app)
    found = list(commands(root, ()))
    overview = table(
        ("command", "what it does"),
        (
            (f"[`penstock {path}`](#penstock-{path.replace(' ', '-')})", first(described(path, command.help)))
            for path, command in found
        ),
    )
    settings = "## Before the command\n\n" + flags("penstock", root.params)
    body = HEAD + overview + "\n" + settings + "".join(f"\n{section(path, command)}" for path, command in found)
    about = "every command, argument and flag with its default"
    return Page("commands", "Commands", about, "the commands in engine/cli/", body)


def commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """(path without `penstock`, command) of each command that does something."""
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
    told = [
        f"- {code(argument.metavar)}: {described(f'argument {argument.name} of {path}', argument.help)}"
        for argument in arguments
    ]
    examples = EXAMPLES.get(path) or described(f"example of {path}", "")
    options = [each for each in command.params if each.param_type_name == "option"]
    parts = [
        f"## penstock {path}",
        described(f"command {path}", command.help),
        code(usage + (" [OPTIONS]" if options else "")),
        "\n".join(told),
        flags(path, [each for each in options if not of_registry(each)]).rstrip(),
        registered([each for each in options if of_registry(each)]),
        "For example:\n\n" + "\n".join(f"- {code(line)}" for line in examples),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def of_registry(flag: Any) -> bool:
    """Whether the flag is an option of the registry, told of on its own page."""
    option = _OPTIONS.get(flag.name)
    return option is not None and flag.help == option.doc


def registered(found: list[Any]) -> str:
    """The flags that are options of the registry."""
    if not found:
        return ""
    return "As in [options](options.md): " + ", ".join(code(flag.opts[0]) for flag in found) + "."


def flags(path: str, found: list[Any]) -> str:
    """The table of a command's own flags; nothing without any."""
    if not found:
        return ""
    return table(("flag", "default", "what it does"), (row(path, flag) for flag in found))


def row(path: str, flag: Any) -> tuple[str, ...]:
    """The row of one flag."""
    names = sorted(flag.opts, key=len, reverse=True)
    shown = code(f"{names[0]} {'' if flag.is_flag or flag.count else form(flag)}".strip())
    more = "".join(f", {code(name)}" for name in names[1:])
    again = " May be given more than once." if flag.multiple and "repeated" not in flag.help else ""
    default = "required" if flag.required else told_default(flag.default)
    return shown + more, default, described(f"flag {names[0]} of {path}", flag.help) + again


def form(flag: Any) -> str:
    """What is typed behind the flag."""
    kind = flag.type_descriptor.annotation
    words = [each.value for each in kind] if isinstance(kind, enum.EnumType) else []
    return flag.metavar or "|".join(words) or "TEXT"


def told_default(value: object) -> str:
    """A default as one would type it."""
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

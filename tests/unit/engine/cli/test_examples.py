"""All commands: help with examples that parse, `--format` of reports, completion in shells."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import typer.main

from penstock.engine.cli.command_line import command_line
from penstock.engine.cli.examples import EXAMPLES

if TYPE_CHECKING:
    from tests.unit.engine.cli.command_line import Cli

ROOT: Any = typer.main.get_command(command_line())
NO_REPORT = {"work", "groups delete", "tables add", "tables remove", "serve", "flight", "demo"}
"""Commands without output for scripts: they print nothing, an address or a demonstration."""
ROWS = {"read", "tail"}
"""Commands whose `--format` is a row format."""


def tree(command: Any = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and command group with its path."""
    yield path, command
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from tree(inner, (*path, name))


PATHS = [" ".join(path) for path, _ in tree()]
LEAVES = {" ".join(path): command for path, command in tree() if not getattr(command, "commands", {})}


def test_examples_cover_exactly_the_commands() -> None:
    assert sorted(EXAMPLES) == sorted(PATHS)


@pytest.mark.parametrize("path", PATHS)
def test_every_command_has_help_with_an_example(cli: Cli, path: str) -> None:
    result = cli(*path.split(), "--help")
    assert result.code == 0
    help_text = " ".join(result.text.split())
    assert "Example" in help_text
    for example in EXAMPLES[path]:
        assert example in help_text


@pytest.mark.parametrize("example", sorted({line for lines in EXAMPLES.values() for line in lines}))
def test_every_example_parses(example: str) -> None:
    """Each example is parsed like a typed command line; no command runs."""
    program, *arguments = shlex.split(example)
    assert program == "penstock"
    command, context = ROOT, None
    while getattr(command, "commands", None):
        context = command.make_context("penstock", arguments, parent=context)
        name, command, arguments = command.resolve_command(context, [*context._protected_args, *context.args])
        assert command is not None, name
    command.make_context(name, arguments, parent=context)


@pytest.mark.parametrize("path", sorted(LEAVES))
def test_every_report_has_a_form(cli: Cli, path: str) -> None:
    forms = re.findall(r"--format +[<\[]([\w|]+)[>\]]", cli(*path.split(), "--help").text)
    if path in NO_REPORT:
        assert forms == []
    elif path in ROWS:
        assert "jsonl" in forms[0]
    else:
        assert forms == ["table|json"]


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("penstock gro", ["groups"]),
        ("penstock groups re", ["reset"]),
        ("penstock read t --query i", ["incremental"]),
        ("penstock read t --metadata o", ["on", "off"]),
    ],
)
def test_shell_completes_commands_and_values(typed: str, completed: list[str]) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1), "_PENSTOCK_COMPLETE": "complete_bash"}
    command = [sys.executable, "-c", "from penstock.engine.cli.main import main; main()"]
    done = subprocess.run(command, env={**os.environ, **words}, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout.split()) == (0, completed), done.stderr

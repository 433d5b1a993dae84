"""Every block of the documentation that claims to run, is run: a page's blocks in order, in one place.

A block that only shows something says so: ```text, or `<!-- not run: reason -->` in the line above it, of which there
may be few. In Python, `expression  # → value` is checked; in `console` blocks, what is printed (`…`: anything).
"""

from __future__ import annotations

import ast
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml
from doc_pages import REPOSITORY, RUN, SHOWN, Block, blocks, pages
from doc_shell import Shell, looks_like, steps
from doc_world import World, with_names
from loopback_ports import free_port

from penstock.engine.cli.main import run as penstock

ILLUSTRATIONS = 14
"""Blocks in a language that runs that are not run; more than these need a better reason than convenience."""


def test_every_block_says_what_it_is() -> None:
    found = [block for page in pages() for block in blocks(page)]
    assert [block.place for block in found if block.language not in (*RUN, *SHOWN)] == []
    commands = re.compile(r"^(\$ |(sudo )?(penstock|pip|make|helm|docker) [a-z])", re.MULTILINE)
    assert [block.place for block in found if block.language in SHOWN and commands.search(block.text)] == []
    assert [block.place for block in found if block.language in SHOWN and block.why_not] == []
    not_run = [block.place for block in found if block.language in RUN and not block.runs]
    assert len(not_run) <= ILLUSTRATIONS, not_run


class Page:
    """A page that is being followed: a folder, a shell, a Python namespace, if need be a Spark session."""

    def __init__(self, tmp_path: pathlib.Path, world: World, served: str, spark: Any) -> None:
        self.folder, notes = tmp_path / "reader", tmp_path / "notes"
        self.folder.mkdir()
        notes.mkdir()
        self._names, self._spark = world.stands_for(self.folder, served), spark
        self._shell = Shell(self.folder, notes, world.environment, served)
        self._partitions = spark.conf.get("spark.sql.shuffle.partitions") if spark else None
        self._python: dict[str, Any] = {"__name__": "__main__"} | ({"spark": spark} if spark else {})

    def follow(self, block: Block) -> None:
        """Does what the block says. AssertionError, or its own error, if it cannot be done or shows something else."""
        text = with_names(block.text, self._names)
        match block.language:
            case "python":
                self._follow_python(text, block)
            case "bash":
                self._shell.run(text)
            case "console":
                for command, shown in steps(text):
                    printed = self._shell.run(command)
                    assert not shown or looks_like(shown, printed), f"{block.place}: {command}\nprinted\n{printed}"
            case "sql":
                for statement in filter(None, map(str.strip, text.split(";"))):
                    self._spark.sql(statement).collect()
            case "toml":
                (self.folder / "checked.toml").write_text(text)
                assert penstock(["config", "check", str(self.folder / "checked.toml")]) == 0
            case "yaml":
                schema = json.loads((REPOSITORY / "deploy" / "helm" / "values.schema.json").read_text())
                jsonschema.Draft7Validator(schema).validate(yaml.safe_load(text))

    def _follow_python(self, text: str, block: Block) -> None:
        lines = text.splitlines()
        for statement in ast.parse(text).body:
            code = ast.Module([statement], [])
            ast.increment_lineno(code, block.line)
            if isinstance(statement, ast.Expr):
                _, told, wanted = lines[statement.end_lineno - block.line - 1].partition("  # → ")
                got = eval(compile(ast.Expression(statement.value), block.page, "eval"), self._python)
                assert not told or repr(got) == wanted, f"{block.place}: {got!r}, not {wanted}"
            else:
                exec(compile(code, block.page, "exec"), self._python)
        if self._spark is not None:
            self._settle_streams()

    def _settle_streams(self) -> None:
        """What is there now goes through each stream, which ends then; a stream that failed is an error."""
        for query in self._spark.streams.active:
            query.processAllAvailable()
            query.stop()
        self._spark.streams.awaitAnyTermination(0.001)
        self._spark.streams.resetTerminated()

    def close(self) -> None:
        """Ends and takes away what the page left."""
        self._shell.close()
        if self._spark is None:
            return
        for query in self._spark.streams.active:
            query.stop()
        self._spark.streams.resetTerminated()
        self._spark.conf.set("spark.sql.shuffle.partitions", self._partitions)
        for table in self._spark.catalog.listTables():
            self._spark.sql(f"DROP {'VIEW' if table.isTemporary else 'TABLE'} {table.name}")


def followed_pages() -> Iterator[Any]:
    """Every page with a block that runs, those that need Spark marked so."""
    for page in pages():
        found = [block for block in blocks(page) if block.runs]
        if found:
            marks = [pytest.mark.spark] if any(block.needs_spark for block in found) else []
            yield pytest.param(found, id=page, marks=marks)


@pytest.mark.parametrize("found", list(followed_pages()))
def test_a_page_can_be_followed(
    found: list[Block],
    world: World,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    spark = request.getfixturevalue("spark") if any(block.needs_spark for block in found) else None
    serves_itself = any("penstock serve" in block.text for block in found)
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    page = Page(tmp_path, world, f"127.0.0.1:{free_port()}" if serves_itself else world.server, spark)
    monkeypatch.chdir(page.folder)
    if spark is not None:
        spark.conf.set("spark.sql.shuffle.partitions", "1")  # of small state each costs each micro-batch as much
    try:
        for block in found:
            page.follow(block)
    finally:
        page.close()

"""Follows a page, block by block."""

from __future__ import annotations

import ast
import json
import pathlib
from typing import Any

import yaml

from penstock.engine.cli.main import run as penstock
from tests.docs.doc_pages import REPOSITORY, Block
from tests.docs.doc_shell import Shell, looks_like, steps
from tests.docs.doc_world import World, with_names


class Page:
    """A page that is followed: a folder, a shell, a Python namespace, and a Spark session if it needs one."""

    def __init__(self, tmp_path: pathlib.Path, world: World, served: str, spark: Any, connect: str = "") -> None:
        self.folder, notes = tmp_path / "reader", tmp_path / "notes"
        self.folder.mkdir()
        notes.mkdir()
        self._names, self._spark = world.stands_for(self.folder, served, connect), spark
        self._shell = Shell(self.folder, notes, world.environment, served)
        self._partitions = spark.conf.get("spark.sql.shuffle.partitions") if spark else None
        self._python: dict[str, Any] = {"__name__": "__main__"} | ({"spark": spark} if spark else {})

    def follow(self, block: Block) -> None:
        """Runs the block. AssertionError, or the block's own error, if it fails or prints something else."""
        text = with_names(block.text, self._names)
        match block.language:
            case "python":
                self._follow_python(text, block)
            case "bash":
                self._shell.run(text)
            case "console":
                for command, output in steps(text):
                    printed = self._shell.run(command)
                    assert not output or looks_like(output, printed), f"{block.place}: {command}\nprinted\n{printed}"
            case "sql":
                for statement in filter(None, map(str.strip, text.split(";"))):
                    self._spark.sql(statement).collect()
            case "toml":
                (self.folder / "checked.toml").write_text(text)
                assert penstock(["config", "check", str(self.folder / "checked.toml")]) == 0
            case "yaml":
                import jsonschema  # late: it takes a fifth of the time in which all tests are collected

                schema = json.loads((REPOSITORY / "deploy" / "helm" / "values.schema.json").read_text())
                jsonschema.Draft7Validator(schema).validate(yaml.safe_load(text))

    def _follow_python(self, text: str, block: Block) -> None:
        lines = text.splitlines()
        for statement in ast.parse(text).body:
            code = ast.Module([statement], [])
            ast.increment_lineno(code, block.line)
            if isinstance(statement, ast.Expr):
                _, has_value, expected = lines[statement.end_lineno - block.line - 1].partition("  # → ")
                value = eval(compile(ast.Expression(statement.value), block.page, "eval"), self._python)
                assert not has_value or repr(value) == expected, f"{block.place}: {value!r}, not {expected}"
            else:
                exec(compile(code, block.page, "exec"), self._python)
        if self._spark is not None:
            self._settle_streams()

    def _settle_streams(self) -> None:
        """Each stream processes the existing rows and ends. A failed stream is an error."""
        for query in self._spark.streams.active:
            query.processAllAvailable()
            query.stop()
        self._spark.streams.awaitAnyTermination(0.001)
        self._spark.streams.resetTerminated()

    def close(self) -> None:
        """Ends and removes everything that the page started."""
        self._shell.close()
        if self._spark is None:
            return
        for query in self._spark.streams.active:
            query.stop()
        self._spark.streams.resetTerminated()
        self._spark.conf.set("spark.sql.shuffle.partitions", self._partitions)
        for table in self._spark.catalog.listTables():
            self._spark.sql(f"DROP {'VIEW' if table.isTemporary else 'TABLE'} {table.name}")

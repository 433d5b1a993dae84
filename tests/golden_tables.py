"""The golden tables of a session: Hudi tables, and the rows that Hudi returned for them."""

from __future__ import annotations

import json
import pathlib
import zipfile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

TESTS = pathlib.Path(__file__).parent


GOLDEN = TESTS / "golden"


SOURCES = ".source"
"""The folder in a bootstrapped table's zip that has its source files."""


def _name_sources(unpacked: pathlib.Path, folder: pathlib.Path) -> None:
    """Sets the bootstrap base path of a table to its source files in `folder`, where it will be."""
    if not (unpacked / SOURCES).is_dir():
        return
    file = unpacked / ".hoodie" / "hoodie.properties"
    lines = [line for line in file.read_text().splitlines() if not line.startswith("hoodie.bootstrap.base.path=")]
    file.write_text("\n".join([*lines, f"hoodie.bootstrap.base.path={folder / SOURCES}", ""]))


class GoldenTables:
    """Golden tables by case name. A table is unpacked once per session and must not be changed (use `copy`)."""

    def __init__(self, workspace: pathlib.Path) -> None:
        self._workspace = workspace
        self._cases: dict[str, dict[str, Any]] = {}
        for file in sorted(GOLDEN.glob("cases_*.json")):
            self._cases.update({case["name"]: case for case in json.loads(file.read_text())})

    def names(self) -> list[str]:
        """Every case in the repository."""
        return list(self._cases)

    def case(self, name: str) -> dict[str, Any]:
        """The history of the table, and its queries (tests/golden/README.md)."""
        return self._cases[name]

    def table(self, name: str) -> pathlib.Path:
        """The unpacked table, shared by the session; read-only."""
        return self._unpack(name, self._workspace / name)

    def copy(self, name: str, folder: pathlib.Path) -> pathlib.Path:
        """A copy of the table that the test may change."""
        return self._unpack(name, folder / name)

    def expected(self, name: str, query_id: str) -> pa.Table:
        """The expected rows of a query: by Penstock's range rule if the catalogue has them (`full`)."""
        query = next(q for q in self._cases[name]["queries"] if q["id"] == query_id)
        return pq.read_table(GOLDEN / query.get("full", query["expected"]))

    def _unpack(self, name: str, folder: pathlib.Path) -> pathlib.Path:
        if not folder.exists():
            partial = folder.with_name(folder.name + ".partial")
            archive = GOLDEN / self._cases[name].get("table", f"tables/{name}.zip")
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(partial)
            _name_sources(partial, folder)
            partial.rename(folder)
        return folder

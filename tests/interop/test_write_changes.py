"""Logs of changes of Penstock's writes: for each instant the changes of real Hudi and of Penstock are equal, also where
Hudi goes on with the table, and together they lead to its rows."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass
from typing import Any

import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.engine.write.write import write
from tests.golden.changes import folded, state_of
from tests.interop.history_changes import decoded, lost_fields, read_changes
from tests.interop.test_writes import HUDIS_COLUMNS, SCHEMA, Model, Row, check, hudis_options, table_of

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]


@dataclass
class Logged:
    """A table with change logging, and what it should hold."""

    hudi: Any
    path: pathlib.Path
    version: int
    kind: str
    index: str
    mode: str

    def __post_init__(self) -> None:
        self.model = Model()
        self.options = hudis_options(self.version, self.kind, self.index) | {
            "hoodie.table.cdc.enabled": "true",
            "hoodie.table.cdc.supplemental.logging.mode": self.mode,
        }
        create_table(
            str(self.path),
            SCHEMA,
            record_key="id",
            partition_by="city",
            ordering="seq",
            table_type=self.kind,
            table_version=self.version,
            index=self.index,
            buckets=3 if self.index == "bucket" else None,
            change_logging=self.mode,
        )

    def write(self, rows: list[Row], operation: str = "upsert", deleted: frozenset[str] = frozenset()) -> None:
        write(str(self.path), table_of(rows, deleted), operation)
        if operation == "delete":
            self.model.delete(rows)
        elif operation == "insert_overwrite":
            self.model.overwrite(rows)
        else:
            self.model.upsert(rows, deleted)

    def hudi_writes(self, rows: list[Row], **more: str) -> None:
        options = {name.replace("__", "."): value for name, value in more.items()}
        self.hudi.write(self.path, HUDIS_COLUMNS, rows, self.options | options)
        self.model.upsert(rows)

    def check(self) -> None:
        """Rows, and the changes of each instant."""
        check(self.hudi, self.path, self.model, self.mode)
        begin, after = "000", "earliest"
        instants = [item for item in self.hudi.instants(self.path) if item[2] not in ("clean", "rollback")]
        for requested, completion, _ in sorted(instants):
            hudis = self.hudi.changes(self.path, begin, requested)
            ours = read_changes(self.path, "hudi", after, completion or requested)
            lost = lost_fields(hudis)
            assert decoded(ours, lost) == decoded(hudis, lost), (requested, self.mode)
            begin, after = requested, completion or requested
        changes = read_changes(self.path, "rows", "earliest", after)
        rows = penstock.read(str(self.path)).read_all()
        assert sorted(folded(changes, {}).values()) == sorted(state_of(rows).elements()), self.mode


FIRST: list[Row] = [(f"k{n}", 10, n, "oslo" if n % 2 else "riga") for n in range(1, 21)]
MODES = ("data_before_after", "data_before", "op_key_only")
CASES = [
    (9, "merge_on_read", "simple", "data_before_after"),
    (9, "copy_on_write", "bucket", "op_key_only"),
    (6, "copy_on_write", "simple", "data_before"),
]
OTHERS = [
    (version, kind, index, mode)
    for version, kind in ((9, "merge_on_read"), (9, "copy_on_write"), (6, "copy_on_write"))
    for index in ("bucket", "simple")
    for mode in MODES
    if (version, kind, index, mode) not in CASES
]


@pytest.mark.parametrize(
    ("version", "kind", "index", "mode"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in OTHERS)],
)
def test_changes_of_both_writers(
    hudi: Any, tmp_path: pathlib.Path, version: int, kind: str, index: str, mode: str
) -> None:
    logged = Logged(hudi, tmp_path / "trip", version, kind, index, mode)
    logged.write(FIRST)
    logged.write([("k1", 20, 21, "oslo"), ("k2", 5, 99, "riga"), ("k31", 20, 29, "oslo"), ("k1", 30, 22, "oslo")])
    late = [("k4", 5, 0, "riga")] if kind == "copy_on_write" else []  # Hudi reports a late delete of a log as one
    marked = [("k3", 40, 0, "oslo"), ("k5", 10, 0, "oslo"), *late]
    logged.write(marked, deleted=frozenset(row[0] for row in marked))
    logged.write([("k7", 0, 0, "oslo"), ("k8", 0, 0, "riga"), ("unknown", 0, 0, "riga")], "delete")
    logged.hudi_writes([("k1", 60, 61, "oslo"), ("k6", 1, 98, "riga"), ("k40", 60, 64, "oslo"), ("k3", 60, 4, "oslo")])
    logged.write([("k1", 70, 71, "oslo"), ("k40", 50, 97, "oslo"), ("k3", 70, 7, "oslo"), ("k5", 70, 8, "oslo")])
    if kind == "merge_on_read":
        logged.hudi_writes(
            [("k9", 70, 71, "oslo")],
            hoodie__compact__inline="true",
            hoodie__compact__inline__max__delta__commits="1",
        )
        logged.write([("k9", 80, 72, "oslo"), ("k6", 80, 73, "riga")])
    logged.check()
    logged.write([("k1", 1, 1, "oslo"), ("k99", 1, 2, "oslo")], "insert_overwrite")
    logged.hudi_writes([("k1", 2, 3, "oslo"), ("k99", 0, 96, "oslo")])
    logged.write([("k1", 3, 4, "oslo"), ("k98", 1, 5, "oslo")])
    logged.check()

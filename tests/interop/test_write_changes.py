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
from tests.interop.hudi_options import COMPACTS, hudis_options
from tests.interop.test_writes import HUDIS_COLUMNS, SCHEMA, Model, Row, check, table_of
from tests.unit.engine.write.killed_storage import Killed, KilledStorage, as_other_process

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

    def instants(self) -> list[tuple[str, str]]:
        """(requested, completion time) of the writes and compactions."""
        kinds = ("commit", "deltacommit", "replacecommit")
        return sorted((name, end or name) for name, end, kind in self.hudi.instants(self.path) if kind in kinds)

    def check(self) -> None:
        """Rows, the changes of all instants and of the last ones, and that they lead to the rows."""
        check(self.hudi, self.path, self.model, self.mode)
        instants = self.instants()
        middle = instants[len(instants) // 2]
        for begin, after in (("000", "earliest"), middle):
            end, upto = instants[-1]
            hudis, ours = self.hudi.changes(self.path, begin, end), read_changes(self.path, "hudi", after, upto)
            lost = lost_fields(hudis)
            assert decoded(ours, lost) == decoded(hudis, lost), (begin, self.mode)
        changes = read_changes(self.path, "rows", "earliest", instants[-1][1])
        rows = penstock.read(str(self.path)).read_all()
        assert sorted(folded(changes, {}).values()) == sorted(state_of(rows).elements()), self.mode


FIRST: list[Row] = [(f"k{n}", 10, n, "oslo" if n % 2 else "riga") for n in range(1, 21)]
MODES = ("data_before_after", "data_before", "op_key_only")
CASES = [
    (version, kind, index, mode)
    for version, kind in ((9, "merge_on_read"), (9, "copy_on_write"), (6, "copy_on_write"))
    for index in ("bucket", "simple")
    for mode in MODES
]


def written_by_both(logged: Logged, *, replaces: bool = True) -> None:
    """Writes of Penstock and of Hudi in turn; with `replaces` also one that replaces file groups."""
    logged.write(FIRST)
    logged.write([("k1", 20, 21, "oslo"), ("k2", 5, 99, "riga"), ("k31", 20, 29, "oslo"), ("k1", 30, 22, "oslo")])
    # Hudi reports a late delete of a log as a delete (rule 6 of `history_changes`)
    late = [("k4", 5, 0, "riga")] if logged.kind == "copy_on_write" else []
    marked = [("k3", 40, 0, "oslo"), ("k5", 10, 0, "oslo"), *late]
    logged.write(marked, deleted=frozenset(row[0] for row in marked))
    logged.write([("k7", 0, 0, "oslo"), ("k8", 0, 0, "riga"), ("unknown", 0, 0, "riga")], "delete")
    logged.hudi_writes([("k1", 60, 61, "oslo"), ("k6", 1, 98, "riga"), ("k40", 60, 64, "oslo"), ("k3", 60, 4, "oslo")])
    logged.write([("k1", 70, 71, "oslo"), ("k40", 50, 97, "oslo"), ("k3", 70, 7, "oslo"), ("k5", 70, 8, "oslo")])
    if logged.kind == "merge_on_read":
        logged.hudi_writes([("k9", 70, 71, "oslo")], **COMPACTS)
        logged.write([("k9", 80, 72, "oslo"), ("k6", 80, 73, "riga")])
    if replaces:
        logged.write([("k1", 81, 1, "oslo"), ("k99", 81, 2, "oslo")], "insert_overwrite")
    logged.hudi_writes([("k1", 82, 3, "oslo"), ("k99", 80, 96, "oslo")])
    logged.write([("k1", 83, 4, "oslo"), ("k98", 81, 5, "oslo")])


@pytest.mark.sampled(1, rest=3)
@pytest.mark.parametrize(("version", "kind", "index", "mode"), CASES)
def test_changes_of_both_writers(
    hudi: Any, tmp_path: pathlib.Path, version: int, kind: str, index: str, mode: str
) -> None:
    logged = Logged(hudi, tmp_path / "trip", version, kind, index, mode)
    written_by_both(logged)
    logged.check()


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["merge_on_read", "copy_on_write"])
def test_changes_of_penstock_and_hudi_0_15(old_hudi: Any, tmp_path: pathlib.Path, kind: str) -> None:
    logged = Logged(old_hudi, tmp_path / "trip", 6, kind, "simple", "data_before_after")
    written_by_both(logged, replaces=False)  # 0.15.0 repeats the last row of replaced groups (golden B_v6_cdc_cow_*)
    logged.check()


@pytest.mark.exhaustive
@pytest.mark.parametrize("version", [9, 6])
def test_hudi_rolls_logs_of_changes_back_and_cleans_them(
    hudi: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """A process that is killed before its write is complete leaves a log of changes beside a base file."""
    logged = Logged(hudi, tmp_path / "trip", version, "copy_on_write", "bucket", "data_before")
    logged.write(FIRST)

    def logs() -> set[str]:
        return {file.name for file in logged.path.rglob("*.cdc")}

    step, left = 11, set[str]()
    while len(left) < 2:
        step += 1
        with monkeypatch.context() as patch:
            as_other_process(patch)
            killed = KilledStorage(logged.path, step, after=True)
            patch.setattr("penstock.engine.write.planned_write.open_writable", lambda path, killed=killed: killed)
            with pytest.raises(Killed):
                write(str(logged.path), table_of([(f"k{n}", 20, n, "oslo") for n in range(1, 21, 2)]))
        left = logs()
    logged.hudi_writes([("k2", 20, 2, "riga")])
    assert not left & logs(), "rolled back"
    logged.check()
    old = logs()
    for seq in (30, 40):
        logged.write([("k2", seq, seq, "riga")])
    logged.hudi_writes([("k2", 50, 50, "riga")], hoodie__clean__automatic="true", hoodie__clean__commits__retained="1")
    assert old - logs(), "cleaned"
    logged.write([("k2", 60, 60, "riga")])
    check(hudi, logged.path, logged.model, "after a clean")

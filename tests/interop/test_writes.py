"""Tables that Penstock writes: after each operation the rows of real Hudi, of Penstock and of a slow model are equal,
and Hudi goes on with the table."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.engine.write import incoming_rows
from penstock.engine.write.create import create_table
from penstock.engine.write.write import write
from tests.interop.hudi_options import COMPACTS, hudis_options

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("seq", pa.int64()),
        ("name", pa.string()),
        ("qty", pa.int32()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("tags", pa.list_(pa.string())),
        ("city", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)

HUDIS_COLUMNS = (
    ("id", "c0"),
    ("seq", "c1"),
    ("name", "concat('n', c2)"),
    ("qty", "cast(c2 AS int)"),
    ("price", "cast(c2 + 0.25 AS decimal(10, 2))"),
    ("at", "timestamp_micros(1700000000000000 + c1 * 1000000 + 123)"),
    ("day", "date_add(date'2023-11-14', cast(c2 AS int))"),
    ("tags", "array(c3, cast(c2 AS string))"),
    ("city", "c3"),
    ("_hoodie_is_deleted", "false"),
)

Row = tuple[str, int, int, str]
"""id, seq, value, city."""


def table_of(rows: list[Row], deleted: frozenset[str] = frozenset()) -> pa.Table:
    """The rows as Arrow, with the values that `HUDIS_COLUMNS` computes."""
    import datetime
    import decimal

    return pa.Table.from_pylist(
        [
            {
                "id": key,
                "seq": seq,
                "name": f"n{value}",
                "qty": value,
                "price": decimal.Decimal(value) + decimal.Decimal("0.25"),
                "at": 1700000000000000 + seq * 1000000 + 123,
                "day": datetime.date(2023, 11, 14) + datetime.timedelta(days=value),
                "tags": [city, str(value)],
                "city": city,
                "_hoodie_is_deleted": key in deleted,
            }
            for key, seq, value, city in rows
        ],
        SCHEMA,
    )


@dataclass(frozen=True)
class State:
    """A table after a write."""

    instant: str
    """The write."""
    order_key: str
    """Its completion time; on version 6 its requested time."""
    rows: list[Row]
    """The rows."""


@dataclass
class Model:
    """A table as a dict, merged row by row: the higher `seq` wins, the later one of equals."""

    rows: dict[tuple[str, str], Row] = field(default_factory=dict)
    states: list[State] = field(default_factory=list)
    optimized: bool = False
    """Whether read-optimized rows are compared too."""

    def wrote(self, requested: str, completion: str) -> None:
        self.states.append(State(requested, completion or requested, sorted(self.rows.values())))

    def upsert(self, rows: list[Row], deleted: frozenset[str] = frozenset()) -> None:
        for row in rows:
            known = self.rows.get((row[3], row[0]))
            if known is not None and known[1] > row[1]:
                continue
            if row[0] in deleted:
                self.rows.pop((row[3], row[0]), None)
            else:
                self.rows[row[3], row[0]] = row

    def delete(self, rows: list[Row]) -> None:
        for row in rows:
            self.rows.pop((row[3], row[0]), None)

    def overwrite(self, rows: list[Row]) -> None:
        self.delete_partitions({row[3] for row in rows})
        self.upsert(rows)

    def delete_partitions(self, cities: set[str]) -> None:
        self.rows = {key: row for key, row in self.rows.items() if key[0] not in cities}


def rows_of(table: pa.Table) -> list[Row]:
    """Rows of the table as those of the model, sorted, after a check that the columns of each row belong together."""
    plain = table.select(SCHEMA.names).cast(SCHEMA)
    rows = [(row["id"], row["seq"], row["qty"], row["city"]) for row in plain.to_pylist()]
    expected = table_of(rows)
    assert plain.drop_columns(["_hoodie_is_deleted"]).equals(expected.drop_columns(["_hoodie_is_deleted"]))
    return sorted(rows)


def check(hudi: Any, path: pathlib.Path, model: Model, what: str) -> None:
    expected = sorted(model.rows.values())
    assert rows_of(penstock.read(str(path)).read_all()) == expected, f"{what}: Penstock"
    assert rows_of(hudi.read(path)) == expected, f"{what}: Hudi"
    if model.optimized:
        optimized = rows_of(hudi.read(path, hoodie__datasource__query__type="read_optimized"))
        assert rows_of(penstock.read(str(path), query="read_optimized").read_all()) == optimized, f"{what}: base files"


def check_history(hudi: Any, path: pathlib.Path, model: Model, what: str) -> None:
    """Compares the rows as of each write, and those that it changed."""
    before = State("", "000", [])
    for state in model.states:
        where = f"{what}, {state.instant}"
        then = penstock.read(str(path), as_of=state.instant).read_all()
        assert rows_of(then) == state.rows, f"{where}: Penstock"
        assert rows_of(hudi.read(path, as__of__instant=state.instant)) == state.rows, f"{where}: Hudi"
        changed = [row for row in state.rows if row not in before.rows]
        after = before.order_key if before.instant else "earliest"
        changes = penstock.read(str(path), query="incremental", after=after, upto=state.order_key).read_all()
        assert rows_of(changes) == changed, f"{where}: Penstock's range"
        # of a log, Hudi also returns the rows that lose against an older one
        won = [row for row in rows_of(hudi.incremental(path, before.order_key, state.order_key)) if row in state.rows]
        assert won == changed, f"{where}: Hudi's range"
        before = state


PAIRWISE = (
    (9, "merge_on_read", "bucket"),
    (6, "merge_on_read", "simple"),
    (6, "copy_on_write", "bucket"),
    (9, "copy_on_write", "simple"),
)
"""Each pair of a version, a table type and an index."""
READ_OPTIMIZED = ((9, "merge_on_read", "bucket"), (6, "merge_on_read", "simple"))
"""Those whose read-optimized rows are compared too."""
OTHERS = (
    (6, "merge_on_read", "bucket"),
    (9, "merge_on_read", "simple"),
    (9, "copy_on_write", "bucket"),
    (6, "copy_on_write", "simple"),
)
"""The other combinations, which `make long` has."""


@pytest.mark.sampled(1, rest=1)
@pytest.mark.parametrize(
    ("version", "kind", "index"), [*PAIRWISE, *(pytest.param(*each, marks=pytest.mark.long) for each in OTHERS)]
)
def test_operations_read_as_written_and_hudi_goes_on(
    hudi: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, version: int, kind: str, index: str
) -> None:
    """All writes but the first are of data that does not fit in memory."""
    path, model = tmp_path / "trip", Model()
    model.optimized = (version, kind, index) in READ_OPTIMIZED
    create_table(
        str(path),
        SCHEMA,
        record_key="id",
        partition_by="city",
        ordering="seq",
        table_type=kind,
        table_version=version,
        index=index,
        buckets=3 if index == "bucket" else None,
    )

    options = hudis_options(version, kind, index)

    def penstock_writes(rows: list[Row], operation: str = "upsert", deleted: frozenset[str] = frozenset()) -> None:
        done = write(str(path), table_of(rows, deleted), operation)
        if operation == "delete":
            model.delete(rows)
        elif operation == "insert_overwrite":
            model.overwrite(rows)
        else:
            model.upsert(rows, deleted)
        model.wrote(done.instant, "" if version == 6 else done.completion_time)

    def hudi_writes(rows: list[Row], more: Mapping[str, str] = MappingProxyType({})) -> None:
        completed = hudi.write(path, HUDIS_COLUMNS, rows, options | more)
        model.upsert(rows)
        action = "deltacommit" if kind == "merge_on_read" else "commit"
        ((requested, completion, _),) = [item for item in completed if item[2] == action]
        model.wrote(requested, completion or "")

    first: list[Row] = [(f"k{n}", 10, n, "oslo" if n % 2 else "riga") for n in range(1, 21)]
    penstock_writes(first)
    check(hudi, path, model, "first upsert")
    monkeypatch.setattr(incoming_rows, "HELD_BYTES", 100)

    second: list[Row] = [("k1", 20, 21, "oslo"), ("k2", 5, 99, "riga"), ("k31", 20, 29, "bern"), ("k1", 30, 22, "oslo")]
    penstock_writes(second)
    check(hudi, path, model, "upsert with a late row, a repeated key and a new partition")

    marked: list[Row] = [("k3", 40, 0, "oslo"), ("k4", 5, 0, "riga"), ("k5", 10, 0, "oslo")]
    penstock_writes(marked, deleted=frozenset({"k3", "k4", "k5"}))
    check(hudi, path, model, "marked deletes, one late")

    gone: list[Row] = [("k7", 0, 0, "oslo"), ("k8", 0, 0, "riga"), ("unknown", 0, 0, "riga")]
    penstock_writes(gone, "delete")
    check(hudi, path, model, "deletes")

    hudis: list[Row] = [("k1", 60, 61, "oslo"), ("k6", 1, 98, "riga"), ("k40", 60, 64, "oslo"), ("k41", 60, 65, "wien")]
    hudi_writes(hudis)
    check(hudi, path, model, "upsert by Hudi")

    if kind == "merge_on_read":
        more: list[Row] = [("k9", 70, 71, "oslo")]
        hudi_writes(more, COMPACTS)
        check(hudi, path, model, "compaction by Hudi")

    third: list[Row] = [("k1", 80, 81, "oslo"), ("k40", 50, 97, "oslo"), ("k41", 80, 85, "wien"), ("k50", 1, 1, "riga")]
    penstock_writes(third)
    check(hudi, path, model, "upsert after Hudi")

    instead: list[Row] = [("k1", 1, 1, "oslo"), ("k99", 1, 2, "oslo")]
    penstock_writes(instead, "insert_overwrite")
    check(hudi, path, model, "insert_overwrite")

    last: list[Row] = [("k1", 2, 3, "oslo"), ("k99", 0, 96, "oslo"), ("k41", 90, 95, "wien")]
    hudi_writes(last)
    check(hudi, path, model, "upsert by Hudi after insert_overwrite")

    if (version, kind, index) in ((9, "merge_on_read", "bucket"), (6, "copy_on_write", "simple")):
        check_history(hudi, path, model, "time travel to each step, and the range of it")

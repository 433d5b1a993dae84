"""Tables with column statistics that Hudi writes: filters have all rows, with the file groups that they exclude.

Before version 9 Hudi records decimals with 15 digits after the point, and leaves out columns that may have more.
"""

from __future__ import annotations

import pathlib
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import pytest

from penstock.enumerator.planning.plan import pruned_plan
from penstock.enumerator.planning.pruning import column_statistics, groups
from penstock.enumerator.planning.pruning.pruned_plan import Reason
from penstock.proto.model.queries import PlanRequest, Snapshot
from penstock.proto.model.splits import Split
from penstock.reader.read_split import read_split
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.metadata.column_stats import ColumnStats, combined_stats
from penstock.table.metadata.metadata_table import MetadataTable, open_metadata_table
from tests.interop.hudi_options import hudis_options
from tests.pruned_keys import rows_of

pytestmark = [pytest.mark.interop, pytest.mark.exhaustive, pytest.mark.timeout(900)]

STATISTICS: Final = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.parquet.block.size": "1024",
    "hoodie.parquet.page.size": "128",
}
"""Several row groups a file: a row group in which all values are null has no bounds."""

TYPES: Final = {
    "price": "DECIMAL(9, 2)",
    "whole": "DECIMAL(5, 0)",
    "most": "DECIMAL(30, 15)",
    "wide": "DECIMAL(38, 0)",
    "long": "DECIMAL(38, 20)",
}
FITS_BEFORE_9: Final = ("price", "whole", "most")
CITIES: Final = ("oslo", "riga", "bern", "kyiv", "rome")


def select() -> str:
    """Rows of which each city has its own range of values, from negative to positive ones; kyiv has only nulls, and
    the first rows of rome, more than a row group, are nulls."""
    names = ", ".join(f"'{city}'" for city in CITIES)
    value = "(city_number - 2) * 1000 + id % 100 + id % 100 / 100"
    parts = {
        "price": value,
        "whole": value,
        "most": f"concat(CAST(CAST({value} AS INT) AS STRING), '.000000000000001')",
        "wide": f"concat('-9999999999999999999999999999999999', lpad(CAST({value} + 2000 AS INT), 4, '0'))",
        "long": f"concat('123456789012', lpad(CAST({value} + 2000 AS INT), 4, '0'), '.00000000000000000001')",
    }
    has_value = "city <> 'kyiv' AND NOT (city = 'rome' AND id < 900)"
    columns = ", ".join(
        f"CAST(IF({has_value}, {text}, NULL) AS {TYPES[name]}) AS {name}" for name, text in parts.items()
    )
    city = f"element_at(array({names}), CAST(id % 5 + 1 AS INT)) AS city"
    rows = f"SELECT id, id % 5 AS city_number, {city} FROM range(1500)"
    return f"SELECT CAST(id AS STRING) AS id, 1L AS seq, city, {columns} FROM ({rows})"


def written(hudi: Any, path: pathlib.Path, version: int, operation: str) -> HudiTable:
    named = {"hoodie.datasource.write.operation": operation}
    hudi.write_query(path, select(), hudis_options(version, "copy_on_write", "simple") | STATISTICS | named)
    return open_table(str(path))


def read(table: HudiTable, where: str, *, metadata: bool = True) -> tuple[list[tuple[str, str]], list[Split]]:
    """(rows, the splits that column statistics exclude)."""
    request = PlanRequest(table="t", query=Snapshot(), where=where, metadata=metadata)
    pruned = pruned_plan(table, "t", request)
    excluded = (item.splits for item in pruned.ruled_out if item.reason is Reason.COLUMN_STATISTICS)
    return rows_of(pruned), [split for splits in excluded for split in splits]


def filters(table: HudiTable, name: str) -> list[str]:
    """Conditions on the lowest and the highest bound of the column that the metadata table has, and on one between."""
    metadata = open_metadata_table(table, table.timeline())
    assert isinstance(metadata, MetadataTable)
    stats = [combined_stats(versions) for versions in metadata.records("column_stats", None).values()]
    bounds = sorted(
        {bound for item in stats if item and item.column == name for bound in (item.low, item.high) if bound}
    )
    chosen = (("<=", 0), ("=", len(bounds) // 2), ("<", len(bounds) // 2), (">", len(bounds) // 2), (">=", -1))
    return [f"{name} {op} {bounds[place]:f}" for op, place in chosen if bounds]


@pytest.mark.parametrize(
    ("version", "operation"),
    [
        (6, "upsert"),
        (9, "bulk_insert"),
        pytest.param(6, "bulk_insert", marks=pytest.mark.long),
        pytest.param(9, "upsert", marks=pytest.mark.long),
    ],
)
def test_filters_of_decimals(
    hudi: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, version: int, operation: str
) -> None:
    monkeypatch.setattr(groups, "FEW_FILES", 0)
    table = written(hudi, tmp_path / "trip", version, operation)
    excluded = {}
    for name in TYPES:
        excluded[name] = 0
        for where in filters(table, name):
            rows, out = read(table, where)
            assert rows == read(table, where, metadata=False)[0], where
            excluded[name] += len(out)
    usable = TYPES if version == 9 else FITS_BEFORE_9
    assert {name for name, count in excluded.items() if count} == set(usable), excluded

    def falsified(versions: Any) -> ColumnStats | None:
        stats = combined_stats(versions)
        if stats is None or not isinstance(stats.low, Decimal) or not isinstance(stats.high, Decimal):
            return stats
        return replace(stats, low=stats.low + 1, high=stats.high - 1)

    monkeypatch.setattr(column_statistics, "combined_stats", falsified)
    pairs = [(read(table, where)[0], read(table, where, metadata=False)[0]) for where in filters(table, "price")]
    assert any(rows != whole for rows, whole in pairs), "the negative control: the statistics are used"


LOGGED: Final = {
    "whole": "CAST({0} AS INT)",
    "long": "CAST({0} AS BIGINT) * 10000000000",
    "price": "CAST({0} + 0.25 AS DECIMAL(9, 2))",
    "day": "date_add(DATE '1970-01-01', CAST({0} AS INT))",
    "at": "timestamp_micros(1700000000000001 + CAST({0} AS BIGINT) * 86400000000)",
}
"""SQL of each column; `{0}` is the number that its values are made of."""

CITY: Final = f"element_at(array({', '.join(map(repr, CITIES))}), CAST(id % 5 + 1 AS INT)) AS city"
"""The partition of a row."""


def numbered(rows: str, number: str, seq: int) -> str:
    """A query of rows of five cities with a column of each type, whose values are made of `number`. Some are null."""
    columns = ", ".join(f"IF(id % 11 = 5, NULL, {text.format(number)}) AS {name}" for name, text in LOGGED.items())
    return f"SELECT CAST(id AS STRING) AS id, {seq}L AS seq, {CITY}, {columns} FROM range({rows})"


SPARK_ROWS: Final = {
    "hoodie.logfile.data.block.format": "parquet",
    "hoodie.write.record.merge.custom.implementation.classes": "org.apache.hudi.DefaultSparkRecordMerger",
}
"""Logs of Spark's rows in Parquet blocks, whose statistics Hudi computes in another way than those of Avro records."""


@pytest.mark.parametrize(
    ("version", "log_options"),
    [(9, SPARK_ROWS), *(pytest.param(version, {}, marks=pytest.mark.long) for version in (8, 9))],
)
def test_filters_of_file_groups_with_logs(
    hudi: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, version: int, log_options: dict[str, str]
) -> None:
    """Logs have values below and above those of their base files, rows that lose the merge, and deletes."""
    monkeypatch.setattr(groups, "FEW_FILES", 0)
    path, options = tmp_path / "trip", hudis_options(version, "merge_on_read", "bucket") | STATISTICS | log_options
    delete = {"hoodie.datasource.write.operation": "delete"}
    hudi.write_query(path, numbered("200", "(id % 5 * 1000 + id)", 5), options)
    hudi.write_query(path, numbered("0, 100, 3", "(id % 5 * 1000 + id + 400)", 7), options)
    hudi.write_query(path, numbered("0, 200, 7", "(-id)", 4), options)
    hudi.write_query(path, numbered("1, 200, 9", "0", 8), options | delete)
    hudi.write_query(path, numbered("2, 200, 40", "(id - 5000)", 9), options)
    table = open_table(str(path))
    excluded: dict[str, int] = {}
    wheres = [where for name in LOGGED for where in conditions_on(table, name)]
    for where in wheres:
        rows, out = read(table, where)
        assert rows == read(table, where, metadata=False)[0], where
        excluded[where.split()[0]] = excluded.get(where.split()[0], 0) + sum(bool(split.logs) for split in out)
    assert {name for name, count in excluded.items() if count} == set(LOGGED)

    keys = column_statistics._keys
    monkeypatch.setattr(column_statistics, "_keys", lambda split, column: keys(split, column)[:1])
    wrong = (where for where in wheres if read(table, where)[0] != read(table, where, metadata=False)[0])
    assert any(wrong), "the negative control: rows of logs are found by the statistics of logs"


@pytest.mark.long
def test_filters_after_partial_updates_and_schema_changes(
    hudi: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logs that lack columns: of partial updates, and from before a column was added or widened."""
    monkeypatch.setattr(groups, "FEW_FILES", 0)
    path, options = tmp_path / "trip", hudis_options(9, "merge_on_read", "bucket") | STATISTICS
    hudi.write_query(path, numbered("200", "(id % 5 * 1000 + id)", 5), options)
    hudi.write_query(path, numbered("0, 60, 7", "(id % 5 * 1000 + id + 400)", 6), options)
    wider = "id, seq, city, CAST(whole AS BIGINT) * 1000000 AS whole, long, price, day, at, CAST(id AS INT) AS added"
    hudi.write_query(path, f"SELECT {wider} FROM ({numbered('60, 120, 7', '(-id)', 6)})", options)
    hudi.script({}, [f"CREATE TABLE logged USING hudi LOCATION '{path}'"])
    session = {name: value for name, value in options.items() if value and name != "hoodie.table.name"}
    for number, (column, value) in enumerate([("price", "CAST(-7777.75 AS DECIMAL(9, 2))"), ("added", "777")]):
        source = f"range(0, 180, 9) WHERE id % 11 <> {number}"
        rows = f"SELECT CAST(id AS STRING) AS id, {10 + number}L AS seq, {CITY}, {value} AS {column} FROM {source}"
        matched = f"WHEN MATCHED THEN UPDATE SET {column} = s.{column}, seq = s.seq"
        merge = f"MERGE INTO logged t USING ({rows}) s ON t.id = s.id {matched}"
        hudi.script(session | {"hoodie.spark.sql.merge.into.partial.updates": "true"}, [merge])
    table, logged = open_table(str(path)), 0
    names = ("whole", "price", "day", "at", "added")
    for where in [
        *(where for name in names for where in conditions_on(table, name)),
        "price = -7777.75",
        "added = 777",
    ]:
        rows, out = read(table, where)
        assert rows == read(table, where, metadata=False)[0], where
        logged += sum(bool(split.logs) for split in out)
    assert logged, "file groups with logs are excluded"
    assert len(read(table, "price = -7777.75")[0]) > 10 and len(read(table, "added = 777")[0]) > 10


def conditions_on(table: HudiTable, name: str) -> list[str]:
    """Conditions on some values of the column."""
    kinds = {"day": "DATE", "at": "TIMESTAMP"}
    plan = pruned_plan(table, "t", PlanRequest(table="t", query=Snapshot(), metadata=False)).plan
    batches = (part.batch for split in plan.splits for part in read_split(plan.scan, split))
    known = sorted({value for batch in batches for value in batch[name].drop_null().to_pylist()})
    texts = [f"{kinds[name]} '{value}'" if name in kinds else str(value) for value in known[:: len(known) // 3]]
    return [f"{name} {op} {text.replace('+00:00', '')}" for text, op in zip(texts, "=>=", strict=False)]

"""Tables with column statistics that Hudi writes: filters of decimals, with the files that they exclude, have all rows.

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


def read(table: HudiTable, where: str, *, metadata: bool = True) -> tuple[list[tuple[str, str]], int]:
    """(rows, number of file groups that column statistics exclude)."""
    request = PlanRequest(table="t", query=Snapshot(), where=where, metadata=metadata)
    pruned = pruned_plan(table, "t", request)
    excluded = (len(item.splits) for item in pruned.ruled_out if item.reason is Reason.COLUMN_STATISTICS)
    return rows_of(pruned), sum(excluded)


def filters(table: HudiTable, name: str) -> list[str]:
    """Conditions around each bound of the column that the metadata table has."""
    metadata = open_metadata_table(table, table.timeline())
    assert isinstance(metadata, MetadataTable)
    stats = [combined_stats(versions) for versions in metadata.records("column_stats", None).values()]
    bounds = {bound for item in stats if item and item.column == name for bound in (item.low, item.high) if bound}
    return [f"{name} {op} {bound:f}" for bound in sorted(bounds) for op in ("=", "<", "<=", ">", ">=")]


@pytest.mark.parametrize("operation", ["upsert", "bulk_insert"])
@pytest.mark.parametrize("version", [6, 9])
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
            excluded[name] += out
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

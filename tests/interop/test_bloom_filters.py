"""Tables with bloom filters in their metadata table that Hudi writes: reads by key, with the files that the filters
exclude, have all rows.
"""

from __future__ import annotations

import pathlib
from typing import Any, Final

import pytest

from penstock.enumerator.planning.pruning import groups, key_filters
from penstock.enumerator.planning.pruning.pruned_plan import Reason
from penstock.proto.model.queries import Query, ReadOptimized, Snapshot, SnapshotAsOf
from penstock.table.hudi_table import open_table
from penstock.table.metadata.bloom_filters import BLOOM_FILTERS
from penstock.table.metadata.key_groups import keys_by_group
from penstock.table.metadata.metadata_table import MetadataTable, open_metadata_table
from penstock.table.parquet.key_bits import key_bits
from tests.interop.hudi_options import hudis_options, service_call
from tests.interop.test_writes import HUDIS_COLUMNS, Row
from tests.pruned_keys import KeyReads, check, reads_by_key

pytestmark = [pytest.mark.interop, pytest.mark.exhaustive, pytest.mark.timeout(900)]

CITIES: Final = ("oslo", "riga", "bern")
ABSENT: Final = ("k0", "never", "é", "k:1,v:2")
FILTERS: Final = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.parquet.small.file.limit": "0",
}


def rows(first: int, stop: int, seq: int = 10) -> list[Row]:
    return [(f"k{n}" if n % 5 else f"ké{n}", seq, n, CITIES[n % 3]) for n in range(first, stop)]


def reads(path: pathlib.Path, query: Query, key_column: str) -> KeyReads:
    return reads_by_key(open_table(str(path)), query, ABSENT, key_column)


def metadata_of(path: pathlib.Path) -> MetadataTable:
    table = open_table(str(path))
    opened = open_metadata_table(table, table.timeline())
    assert isinstance(opened, MetadataTable)
    return opened


def each_filter_is_in_the_group_of_its_key(path: pathlib.Path) -> bool:
    metadata = metadata_of(path)
    every = set(metadata.records(BLOOM_FILTERS, None))
    found = metadata.records_by_group(BLOOM_FILTERS, lambda all_groups: keys_by_group(all_groups, every))
    return bool(every) and set().union(*found) == every and len(metadata.visible(BLOOM_FILTERS)) > 1


@pytest.mark.parametrize(
    ("version", "kind", "more"),
    [
        (6, "copy_on_write", {"hoodie.index.bloom.num_entries": "100"}),
        pytest.param(9, "merge_on_read", {}, marks=pytest.mark.long),
        pytest.param(9, "copy_on_write", {"hoodie.bloom.index.filter.type": "SIMPLE"}, marks=pytest.mark.long),
        pytest.param(
            9, "copy_on_write", {"hoodie.datasource.write.recordkey.field": "id,name"}, marks=pytest.mark.long
        ),
    ],
    ids=["small filters", "default filters", "filters that do not grow", "keys of two columns"],
)
def test_reads_by_key(
    hudi: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, version: int, kind: str, more: dict[str, str]
) -> None:
    monkeypatch.setattr(groups, "FEW_FILES", 0)
    path = tmp_path / "trip"
    options = hudis_options(version, kind, "simple") | FILTERS | more
    key_column = "" if "hoodie.datasource.write.recordkey.field" in more else "id"

    def write(some: list[Row], operation: str = "upsert") -> None:
        hudi.write(path, HUDIS_COLUMNS, some, options | {"hoodie.datasource.write.operation": operation})

    write(rows(1, 200))
    write(rows(200, 260))
    write(rows(260, 300), "bulk_insert")
    write(rows(40, 45, seq=20))
    write(rows(60, 65, seq=30), "delete")
    assert each_filter_is_in_the_group_of_its_key(path)
    check(reads(path, Snapshot(), key_column), Reason.BLOOM_FILTERS)
    check(reads(path, ReadOptimized(), key_column), Reason.BLOOM_FILTERS)
    times = [item.requested_time for item in open_table(str(path)).timeline().completed_writes]
    check(reads(path, SnapshotAsOf(times[2]), key_column), Reason.BLOOM_FILTERS)
    hudi.call(service_call("clustering", "scheduleAndExecute", path, options))
    write(rows(300, 310))
    check(reads(path, Snapshot(), key_column), Reason.BLOOM_FILTERS)
    monkeypatch.setattr(key_filters, "key_bits", bits_of_other_keys)
    assert reads(path, Snapshot(), key_column).wrong, "the negative control: the filters are used"


def bits_of_other_keys(keys: Any, hashes: int, bits: int) -> Any:
    return key_bits([f"not {key}" for key in keys], hashes, bits)

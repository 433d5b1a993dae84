"""Filters on golden tables: with any pruning, the rows and ordinals equal the filtered full read."""

from __future__ import annotations

import pathlib
import random
import zlib
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa
import pytest

from penstock.enumerator.planning.plan import plan_request, pruned_plan
from penstock.enumerator.planning.pruning import column_statistics
from penstock.enumerator.planning.pruning import groups as file_pruning
from penstock.enumerator.planning.pruning.pruned_plan import Reason
from penstock.proto.errors import CorruptFile, UnsupportedFeature
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import Incremental, PlanRequest, Query, ReadOptimized, Snapshot
from penstock.proto.model.splits import Split
from penstock.reader.read_split import SplitTally, read_split
from penstock.reader.split.filter import evaluate
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.metadata import listing
from penstock.table.metadata.column_stats import COLUMN_STATS
from penstock.table.metadata.files import FILES
from penstock.table.metadata.metadata_table import indexes
from penstock.table.partitions.pruning import partition_pruning
from penstock.table.predicate.parse import parse_predicate
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from tests.golden.catalogue import counted_entries

pytestmark = pytest.mark.golden

WITHOUT_SNAPSHOT = ("A_corrupt_middle_v6_h0150",)
"""Its snapshot is an error: missing files."""

Rows = dict[tuple[str, int], str]
"""Rows as text by split and ordinal."""


class Golden(Protocol):
    def table(self, name: str) -> pathlib.Path: ...


def read(table: HudiTable, query: Query, where: str = "", *, metadata: bool = True) -> tuple[Rows, int]:
    """(rows, number of pruned row groups)."""
    request = PlanRequest(table="t", query=query, where=where, metadata=metadata)
    plan = plan_request(table, "t", request)
    rows: Rows = {}
    pruned = 0
    for split in plan.splits:
        tally = SplitTally()
        for part in read_split(plan.scan, split, tally=tally):
            texts = map(repr, part.batch.to_pylist())
            rows.update({(split.split_id, at): text for at, text in zip(part.ordinals().tolist(), texts, strict=True)})
        pruned += tally.report().pruned_row_groups
    return rows, pruned


def full(table: HudiTable, query: Query) -> tuple[Rows, pa.RecordBatch, list[tuple[str, int]]]:
    """Every row as text, all rows as one batch, and the origin of each."""
    plan = plan_request(table, "t", PlanRequest(table="t", query=query))
    batches, places = [], []
    for split in plan.splits:
        for part in read_split(plan.scan, split):
            batches.append(part.batch)
            places += [(split.split_id, ordinal) for ordinal in part.ordinals().tolist()]
    schema = arrow_schema(parse_record_schema(plan.scan.schema_json, "t"))
    whole = pa.Table.from_batches(batches, schema).combine_chunks()
    batch = whole.to_batches()[0] if len(whole) else pa.RecordBatch.from_pylist([], schema)
    texts = [repr(row) for row in batch.to_pylist()]
    return dict(zip(places, texts, strict=True)), batch, places


def literal(value: Any, kind: pa.DataType) -> str | None:
    """A value as a literal of a filter; None: it has no literal."""
    if pa.types.is_boolean(kind):
        return str(value).upper()
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return str(value)
    if pa.types.is_floating(kind):
        return repr(float(value)) if abs(value) < 1e300 else None
    if pa.types.is_string(kind):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if pa.types.is_date(kind):
        return f"DATE '{value.isoformat()}'"
    if pa.types.is_timestamp(kind):
        return f"TIMESTAMP '{value.replace(tzinfo=None).isoformat(sep=' ')}'"
    return None


def leaves(batch: pa.RecordBatch, luck: random.Random) -> list[str]:
    """Conditions on existing values, some on each column that filters support."""
    columns: list[str] = []
    for field, values in zip(batch.schema, batch.columns, strict=True):
        known = (
            sorted({value for value in values.to_pylist() if value is not None and value == value})
            if (literal_kind(field.type))
            else []
        )
        name = f"`{field.name}`"
        if known:
            texts = [literal(value, field.type) for value in (luck.choice(known), known[0], known[-1])]
            for text in filter(None, texts):
                ops = ["=", "!="] if pa.types.is_boolean(field.type) else ["=", "!=", "<", "<=", ">", ">="]
                columns.append(f"{name} {luck.choice(ops)} {text}")
            if pa.types.is_string(field.type) and not set(str(known[0])) & set("%_\\'"):
                columns.append(f"{name} LIKE '{str(luck.choice([known[0]]))[:3]}%'")
        columns.append(f"{name} IS {luck.choice(['', 'NOT '])}NULL")
    return columns


def literal_kind(kind: pa.DataType) -> bool:
    tests = ("is_boolean", "is_integer", "is_decimal", "is_floating", "is_string", "is_date", "is_timestamp")
    return any(getattr(pa.types, test)(kind) for test in tests)


def conditions(batch: pa.RecordBatch, seed: str, partition_fields: tuple[str, ...], count: int) -> list[str]:
    """Seeded filters over a table's rows: single conditions and trees, always also on the partition's columns."""
    luck = random.Random(zlib.crc32(seed.encode()))
    simple = leaves(batch, luck)
    of_path = [text for text in simple if text.split("`")[1] in partition_fields]
    chosen = [*luck.sample(simple, min(count, len(simple))), *of_path[:1]]
    for _ in range(count):
        one, other = luck.choice(simple), luck.choice(of_path or simple)
        chosen.append(luck.choice([f"{one} AND {other}", f"{one} OR {other}", f"NOT ({one} AND {other})"]))
    return chosen


def compare(table: HudiTable, query: Query, count: int, seed: str, *, metadata: bool = True) -> int:
    """Filtered reads against the filtered full read; the number of pruned row groups."""
    all_files, batch, places = full(table, query)
    total = 0
    for where in conditions(batch, seed, table.properties.partition_fields, count):
        remaining = evaluate(parse_predicate(where, batch.schema), batch).to_pylist()
        expected = {place: all_files[place] for place, answer in zip(places, remaining, strict=True) if answer}
        actual, pruned = read(table, query, where, metadata=metadata)
        assert actual == expected, f"{query} where {where}"
        total += pruned
    return total


@pytest.mark.sampled(2, rest=40)
@pytest.mark.parametrize("case", sorted({entry.case for entry in counted_entries()}))
def test_filtered_read_is_the_full_read_filtered(golden: Golden, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = open_table(str(golden.table(case)))
    if case in WITHOUT_SNAPSHOT:
        with pytest.raises((CorruptFile, UnsupportedFeature)):
            full(table, Snapshot())
        return
    compare(table, Snapshot(), 2, case)
    if table.properties.is_merge_on_read:  # of other tables it is the snapshot
        compare(table, ReadOptimized(), 1, case + "ro")
    if FILES in indexes(table.properties):
        monkeypatch.setattr(listing, "FEW_PARTITIONS", 0)
        monkeypatch.setattr(file_pruning, "FEW_FILES", 0)
        compare(table, Snapshot(), 1, case + "metadata")
    timeline = table.timeline()
    keys = sorted(timeline.order_key(item) for item in timeline.completed_writes)
    if len(keys) > 1 and table.properties.populate_meta_fields:
        try:
            compare(table, Incremental(after=Position(keys[len(keys) // 2 - 1])), 1, case + "inc")
        except UnsupportedFeature as refused:
            assert "log compaction" in str(refused)


WITH_STATISTICS = (
    "A_mdt_all_v9_h120",
    "B_up_cow_cdc_v8",
    "B_up_cow_cdc_v9",
    "B_v6_colstats_mor",
    "B_v8_colstats_mor",
    "B_v9_colstats_cow",
    "B_v9_colstats_mor",
    "C_v9_streamer_keys",
)


WITH_STATISTICS_OF_LOGS = ("A_mdt_all_v9_h120", "B_v8_colstats_mor", "B_v9_colstats_mor", "C_v9_streamer_keys")
"""Those with file groups with logs that filters exclude (versions 8 and 9)."""


def around_bounds(batch: pa.RecordBatch) -> list[str]:
    """Filters around the lowest and the highest value of integers, decimals, dates and timestamps."""
    filters = []
    for field in batch.schema:
        tests = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_date, pa.types.is_timestamp)
        judged = any(test(field.type) for test in tests)
        values = sorted(set(batch[field.name].drop_null().to_pylist())) if judged else []
        ends = {*values[:1], *values[-1:]}
        filters += [f"`{field.name}` {op} {literal(value, field.type)}" for value in ends for op in ("=", "<", ">=")]
    return filters


def excluded_groups(table: HudiTable, query: Query) -> tuple[list[Split], list[str]]:
    """(splits that filters around bounds exclude by column statistics, filters with other rows than the filtered full
    read)."""
    all_files, batch, places = full(table, query)
    excluded, wrong = [], []
    for where in around_bounds(batch):
        remaining = evaluate(parse_predicate(where, batch.schema), batch).to_pylist()
        expected = {place: all_files[place] for place, answer in zip(places, remaining, strict=True) if answer}
        if read(table, query, where)[0] != expected:
            wrong.append(where)
        ruled_out = pruned_plan(table, "t", PlanRequest(table="t", query=query, where=where)).ruled_out
        excluded += [split for item in ruled_out if item.reason is Reason.COLUMN_STATISTICS for split in item.splits]
    return excluded, wrong


@pytest.mark.parametrize("case", WITH_STATISTICS)
def test_file_groups_are_pruned_by_column_statistics(
    golden: Golden, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read-optimized queries have only log-free files. Those with logs are excluded too, but not in version 6."""
    monkeypatch.setattr(file_pruning, "FEW_FILES", 0)
    table = open_table(str(golden.table(case)))
    if COLUMN_STATS not in indexes(table.properties):
        pytest.fail(f"{case} has no column statistics")
    excluded, wrong = excluded_groups(table, ReadOptimized())
    assert excluded and not wrong
    excluded, wrong = excluded_groups(table, Snapshot())
    assert not wrong
    assert any(split.logs for split in excluded) is (case in WITH_STATISTICS_OF_LOGS)


@pytest.mark.parametrize("case", ["B_v8_colstats_mor", "B_v9_colstats_mor"])
def test_rows_are_lost_without_the_statistics_of_logs(
    golden: Golden, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statistics of logs are needed, and the test above notices if they are missing."""
    monkeypatch.setattr(file_pruning, "FEW_FILES", 0)
    keys = column_statistics._keys
    monkeypatch.setattr(column_statistics, "_keys", lambda split, column: keys(split, column)[:1])
    _, wrong = excluded_groups(open_table(str(golden.table(case))), Snapshot())
    assert wrong


def test_completion_times_prune_no_file(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in no statistics of files. Other parts of the filter prune as without them."""
    monkeypatch.setattr(file_pruning, "FEW_FILES", 0)
    table = open_table(str(golden.table("B_v9_colstats_cow")))
    request = PlanRequest(
        table="t",
        query=ReadOptimized(),
        columns=("id", "_completion_time"),
        completion_time=True,
        timeline_timezone="UTC",
    )

    def rows(where: str) -> tuple[list[Any], int]:
        plan = plan_request(table, "t", replace(request, where=where))
        batches = [part.batch for split in plan.splits for part in read_split(plan.scan, split)]
        return [row for batch in batches for row in batch.to_pylist()], len(plan.splits)

    everything, splits = rows("")
    newest = max(row["_completion_time"] for row in everything)
    named = f"_completion_time >= '{newest.isoformat()}'"
    assert rows(named) == ([row for row in everything if row["_completion_time"] >= newest], splits)
    _, batch, _ = full(table, ReadOptimized())
    integers = [field.name for field in batch.schema if pa.types.is_integer(field.type)]
    ends = [
        (name, op, end(batch[name].drop_null().to_pylist() or [0]))
        for name in integers
        for op, end in (("<=", min), (">=", max))
    ]
    answers = {other: rows(other) for other in (f"`{name}` {op} {value}" for name, op, value in ends)}
    other, (by_other, remaining) = min(answers.items(), key=lambda item: item[1][1])
    assert remaining < splits
    assert rows(f"{other} AND _completion_time IS NOT NULL") == (by_other, remaining)
    assert rows(f"{other} OR {named}")[1] == splits


def test_filters_prune_some_row_groups(golden: Golden) -> None:
    cases = ("B_v9_inc_cow", "B_v9_cdc_types_cow", "A_types_v6_h0150", "A_part_special_v9_h120")
    assert sum(compare(open_table(str(golden.table(case))), Snapshot(), 6, case) for case in cases) > 10


@pytest.mark.parametrize("case", ["B_v6_timeline_mor", "B_v9_colstats_mor", "B_v9_arch_mor"])
def test_metadata_table_is_read_only_for_matching_partitions(golden: Golden, case: str) -> None:
    table = open_table(str(golden.table(case)))
    request = PlanRequest(table="t", query=Snapshot())
    schema = arrow_schema(parse_record_schema(plan_request(table, "t", request).scan.schema_json, "t"))
    every = listing.TableListing(table, table.timeline(), metadata=True, few_partitions=0).all_files()
    first = min(every)
    value = first.partition("=")[2]
    (field,) = table.properties.partition_fields
    pruning = partition_pruning(table.properties, schema, parse_predicate(f"`{field}` = '{value}'", schema))
    assert pruning is not None and value
    for metadata in (True, False):
        table_listing = listing.TableListing(table, table.timeline(), metadata=metadata, few_partitions=0)
        actual = table_listing.all_files(None, pruning)
        assert list(actual) == [first] and table_listing.from_metadata is metadata
        committed = {info.name for info in every[first]}
        assert committed <= {info.name for info in actual[first]} and len(every) > 1


def test_special_partition_values_are_pruned_by_the_value_in_the_rows(golden: Golden) -> None:
    """Null, empty, escaped and percent values: a partition is planned if and only if a row of it matches."""
    table = open_table(str(golden.table("A_part_special_v9_h120")))
    all_files, batch, places = full(table, Snapshot())
    field = table.properties.partition_fields[0]
    pruning = partition_pruning(table.properties, batch.schema, parse_predicate(f"`{field}` IS NULL", batch.schema))
    assert pruning is not None and pruning.drops(f"{field}=x")
    for value in set(batch[field].to_pylist()):
        text = literal(value, pa.string()) if value is not None else None
        where = f"`{field}` IS NULL" if text is None else f"`{field}` = {text}"
        splits = plan_request(table, "t", PlanRequest(table="t", query=Snapshot(), where=where)).splits
        holding = {place[0] for place, held in zip(places, batch[field].to_pylist(), strict=True) if held == value}
        assert {split.split_id for split in splits} == holding, where
        assert len(holding) < len({place[0] for place in all_files})

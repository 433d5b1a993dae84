"""Metadata of writes: encoded and decoded again, and compared field by field with the files of Hudi."""

from __future__ import annotations

import io
import json
import pathlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.timeline.commit_encoder import encode_commit, encode_requested_replace
from penstock.table.timeline.commits import CommitMetadata, CompactedLogs, WriteStat, parse_commit
from penstock.table.timeline.instants import Action, Instant, State, parse_instant_file
from penstock.table.timeline.metadata_schemas.compactions import COMPACTION_PLAN
from penstock.table.timeline.metadata_schemas.writes import COMMIT, REPLACE_COMMIT, REQUESTED_REPLACE
from penstock.table.timeline.services.plans import RequestedReplace, parse_requested_replace

T = "20260131235959123"
GROUP = "8d2f6c37-7c7d-47a0-b032-54bc196b1bed-0"
ACTIONS = st.sampled_from([Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT])


def completed(action: Action, layout: int) -> Instant:
    instant = parse_instant_file(f"{T}.{action}" if layout == 1 else f"{T}_{T}.{action}", layout)
    assert instant is not None
    return instant


COMPACTED = st.builds(
    CompactedLogs,
    files=st.integers(1, 99),
    blocks=st.integers(0, 99),
    records=st.integers(0, 10**6),
    updated=st.integers(0, 10**6),
    size_bytes=st.integers(0, 2**40),
)


@st.composite
def write_stats(draw: st.DrawFn) -> WriteStat:
    partition = draw(st.sampled_from(["", "p=a", "p=β/q=1"]))
    is_log = draw(st.booleans())
    file = f".{GROUP}_{T}.log.3_0-1-2" if is_log else f"{GROUP}_0-1-2_{T}.parquet"
    path = f"{partition}/{file}" if partition else file
    counts = st.integers(0, 10**6)
    return WriteStat(
        partition=partition,
        file_id=draw(st.sampled_from([GROUP, "f-1"])),
        path=path,
        num_writes=draw(counts),
        num_deletes=draw(counts),
        num_inserts=draw(counts),
        num_update_writes=draw(counts),
        file_size_bytes=draw(counts),
        base_file=draw(st.sampled_from(["", "b.parquet"])) if is_log else "",
        log_files=(file, "other.log") if is_log else (),
        prev_commit=draw(st.sampled_from(["", T])),
        change_logs={f"{path}.cdc": 7} if draw(st.booleans()) and not is_log else {},
        prev_base_file=draw(st.sampled_from(["", "b.parquet"])) if not is_log else "",
        compacted_logs=draw(st.none() | COMPACTED) if not is_log else None,
    )


@st.composite
def commits(draw: st.DrawFn, action: Action) -> CommitMetadata:
    stats = draw(st.lists(write_stats(), max_size=4))
    extra = draw(st.dictionaries(st.text(max_size=5), st.text(max_size=9), max_size=3))
    schema = draw(st.sampled_from(["", '{"type":"record"}']))
    replaced = draw(st.sets(st.tuples(st.sampled_from(["", "p=a"]), st.sampled_from(["f", "g"]))))
    extra.pop("schema", None)
    return CommitMetadata(
        requested_time=T,
        operation=draw(st.sampled_from(["", "UPSERT", "INSERT_OVERWRITE"])),
        compacted=draw(st.booleans()),
        schema_json=schema,
        extra={**extra, "schema": schema} if schema else extra,
        stats=tuple(sorted(stats, key=lambda stat: (stat.partition, stat.file_id))),
        replaced=tuple(sorted(replaced)) if action is Action.REPLACE_COMMIT else (),
    )


@given(st.data(), ACTIONS, st.sampled_from([1, 2]))
def test_commit_is_decoded_from_its_file(data: st.DataObject, action: Action, layout: int) -> None:
    metadata = data.draw(commits(action))
    decoded = parse_commit(encode_commit(metadata, action, layout), completed(action, layout))
    if layout == 1:  # which does not store the name of the previous base file
        metadata = replace(metadata, stats=tuple(replace(stat, prev_base_file="") for stat in metadata.stats))
    assert decoded == metadata


def test_compaction_and_clustering_have_the_files_as_which_they_complete() -> None:
    metadata = parse_commit(b'{"partitionToWriteStats": {}}', completed(Action.COMMIT, 1))
    assert encode_commit(metadata, Action.COMPACTION, 2) == encode_commit(metadata, Action.COMMIT, 2)
    assert encode_commit(metadata, Action.CLUSTERING, 2) == encode_commit(metadata, Action.REPLACE_COMMIT, 2)


NOT_KEPT = {
    *("runtimeStats", "totalLogReadTimeMs", "totalCorruptLogBlock", "totalRollbackBlocks"),
    *("recordsStats", "minEventTime", "maxEventTime", "totalWriteErrors"),
}
"""Fields that Penstock does not keep: times, and damaged blocks. They are 0 or null when written."""


OF_LATER_RELEASES = {
    *("totalLogFiles", "totalLogReadTimeMs", "prevBaseFile", "numUpdates", "totalValidLogBlocks", "totalLogBlocksSize"),
    "totalLogBlocksScanTimeMs",
}
"""Fields that Hudi 1.x adds to the JSON of layout 1, and 0.15 does not."""


LOST_BY_UPGRADES = {"logVersion", "logOffset", "baseFile", "logFiles"}
"""Fields that Hudi 1.2.0 leaves out of the stats of logs when it upgrades a table from version 6."""


def without_doc(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: without_doc(value) for key, value in node.items() if key != "doc"}
    return [without_doc(item) for item in node] if isinstance(node, list) else node


def decoded_fields(data: bytes) -> dict[str, Any]:
    return json.loads(data) if data[:1] == b"{" else next(iter(fastavro.reader(io.BytesIO(data))))


def stats_by_path(fields: dict[str, Any], absent: set[str]) -> dict[tuple[str, str], dict[str, Any]]:
    stats = {}
    for partition, entries in fields["partitionToWriteStats"].items():
        for stat in entries:
            assert (partition, stat["path"]) not in stats
            stats[partition, stat["path"]] = {key: value for key, value in stat.items() if key not in NOT_KEPT | absent}
    return stats


def replaced(fields: dict[str, Any]) -> dict[str, list[str]]:
    """Partition -> file ids, whose order means nothing. Hudi writes a partition of which it replaces no file with an
    empty list, and Penstock leaves it out; both replace nothing."""
    by_partition = fields.get("partitionToReplaceFileIds") or {}
    return {partition: sorted(file_ids) for partition, file_ids in by_partition.items() if file_ids}


def completed_files(table: pathlib.Path) -> Iterator[tuple[pathlib.Path, Instant, int]]:
    for folder, layout in ((table / ".hoodie", 1), (table / ".hoodie" / "timeline", 2)):
        for file in sorted(folder.glob("*.*commit")) if (folder / "history").exists() or layout == 1 else []:
            instant = parse_instant_file(file.name, layout)
            if instant and instant.state is State.COMPLETED and file.stat().st_size:
                yield file, instant, layout


@pytest.mark.golden
def test_files_of_every_golden_table_are_encoded_with_the_fields_of_hudi(golden: Any) -> None:
    compared = {1: 0, 2: 0}
    for case in golden.names():
        table = golden.table(case)
        for file, instant, layout in completed_files(table):
            data = file.read_bytes()
            metadata = parse_commit(data, instant)
            encoded = encode_commit(metadata, instant.action, layout)
            by_hudi, own = decoded_fields(data), decoded_fields(encoded)
            decoded = parse_commit(encoded, instant)
            if layout == 1:
                metadata = replace(metadata, stats=tuple(replace(stat, prev_base_file="") for stat in metadata.stats))
            assert decoded == metadata, file
            assert replaced(own) == replaced(by_hudi), file
            for key in ("compacted", "extraMetadata", "operationType"):
                assert (own.get(key) or None) == (by_hudi.get(key) or None), (file, key)
            absent = OF_LATER_RELEASES if layout == 1 else LOST_BY_UPGRADES if case == "B_up_mor_v8" else set()
            assert stats_by_path(own, absent) == stats_by_path(by_hudi, absent), file
            compared[layout] += 1
    assert min(compared.values()) > 100


@pytest.mark.golden
@pytest.mark.parametrize(
    ("case", "pattern", "schema"),
    [
        ("A_merge_event_long_v9_h120", "*.deltacommit", COMMIT),
        ("A_clustering_done_v9_h120", "*.replacecommit", REPLACE_COMMIT),
        ("A_clustering_done_v9_h120", "*.clustering.requested", REQUESTED_REPLACE),
        ("A_compaction_pending_v9_h120", "*.compaction.requested", COMPACTION_PLAN),
    ],
)
def test_schemas_are_those_in_the_files_of_hudi(golden: Any, case: str, pattern: str, schema: dict[str, Any]) -> None:
    file = min((golden.table(case) / ".hoodie" / ("" if "_v6_" in case else "timeline")).glob(pattern))
    header = fastavro.reader(io.BytesIO(file.read_bytes())).metadata["avro.schema"]
    assert without_doc(json.loads(header)) == without_doc(schema)


@pytest.mark.parametrize("layout", [1, 2])
@pytest.mark.parametrize("operation", ["", "INSERT_OVERWRITE_TABLE", "DELETE_PARTITION"])
def test_requested_replacecommit_is_decoded_from_its_file(operation: str, layout: int) -> None:
    instant = parse_instant_file(f"{T}.replacecommit.requested", layout)
    assert instant is not None
    decoded = parse_requested_replace(encode_requested_replace(operation, layout), instant)
    assert decoded == RequestedReplace(operation, False, ())

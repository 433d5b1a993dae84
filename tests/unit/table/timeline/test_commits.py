"""Commit metadata: JSON and Avro give the same values; damage and missing fields are named."""

from __future__ import annotations

import io
import json
import pathlib
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import CorruptFile, UnsupportedFeature
from penstock.table.timeline.commits import CommitMetadata, parse_commit
from penstock.table.timeline.instants import Instant, parse_instant_file

TEXT = {"type": "string", "avro.java.string": "String"}
STAT_FIELDS: dict[str, object] = {
    "fileId": TEXT,
    "path": TEXT,
    "prevCommit": TEXT,
    "numWrites": "long",
    "numDeletes": "long",
    "numUpdateWrites": "long",
    "numInserts": "long",
    "fileSizeInBytes": "long",
    "partitionPath": TEXT,
    "logVersion": "int",
    "baseFile": TEXT,
    "logFiles": {"type": "array", "items": TEXT},
    "cdcStats": {"type": "map", "values": "long"},
}


def _nullable(fields: dict[str, object]) -> list[object]:
    return [{"name": name, "type": ["null", kind], "default": None} for name, kind in fields.items()]


STAT_SCHEMA = {"type": "record", "name": "HoodieWriteStat", "fields": _nullable(STAT_FIELDS)}
COMMIT_SCHEMA = {
    "type": "record",
    "name": "org.apache.hudi.avro.model.HoodieReplaceCommitMetadata",
    "fields": _nullable(
        {
            "partitionToWriteStats": {"type": "map", "values": {"type": "array", "items": STAT_SCHEMA}},
            "compacted": "boolean",
            "extraMetadata": {"type": "map", "values": TEXT},
            "operationType": TEXT,
            "partitionToReplaceFileIds": {"type": "map", "values": {"type": "array", "items": TEXT}},
        }
    ),
}
BASE = {"fileId": "g-0", "path": "p=a/g-0_0-1-2_001.parquet", "prevCommit": "null", "numWrites": 3, "numInserts": 3}
LOG = {
    "fileId": "f-0",
    "path": "p=a/.f-0_001.log.1_0-1-2",
    "prevCommit": "000",
    "numDeletes": 1,
    "fileSizeInBytes": 10,
    "baseFile": "f-0_0-0-0_000.parquet",
    "logFiles": [".f-0_001.log.1_0-1-2"],
}
COMMIT: dict[str, Any] = {
    "partitionToWriteStats": {"p=b": [], "p=a": [BASE, LOG], "": [{"fileId": "h-0", "path": None}]},
    "compacted": False,
    "extraMetadata": {"schema": '{"type":"record"}', "key": "välue"},
    "operationType": "upsert",
    "partitionToReplaceFileIds": {"p=a": ["z-0", "y-0"], "p=b": []},
}


def _instant(name: str = "001_002.replacecommit", layout: int = 2) -> Instant:
    instant = parse_instant_file(name, layout)
    assert instant is not None
    return instant


def _avro(commit: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, COMMIT_SCHEMA, [commit], sync_marker=b"s" * 16)
    return out.getvalue()


def _json(commit: dict[str, Any]) -> bytes:
    return json.dumps(commit, indent=2, ensure_ascii=False).encode()


def _changed(**changes: object) -> dict[str, Any]:
    return {**COMMIT, **changes}


def _with_stat(**changes: object) -> dict[str, Any]:
    return _changed(partitionToWriteStats={"p=a": [{**BASE, **changes}]})


def test_values() -> None:
    commit = parse_commit(_json(COMMIT), _instant())
    assert (commit.requested_time, commit.operation, commit.compacted) == ("001", "UPSERT", False)
    assert commit.schema_json == '{"type":"record"}' and commit.extra["key"] == "välue"
    assert commit.replaced == (("p=a", "y-0"), ("p=a", "z-0"))
    assert [(s.partition, s.file_id, s.path) for s in commit.stats] == [
        ("", "h-0", ""),
        ("p=a", "f-0", "p=a/.f-0_001.log.1_0-1-2"),
        ("p=a", "g-0", "p=a/g-0_0-1-2_001.parquet"),
    ]
    log, base = commit.stats[1:]
    assert (base.num_writes, base.num_inserts, base.prev_commit, base.log_files) == (3, 3, "", ())
    assert (log.num_deletes, log.prev_commit, log.base_file) == (1, "000", "f-0_0-0-0_000.parquet")
    assert (log.log_files, log.file_name) == ((".f-0_001.log.1_0-1-2",), ".f-0_001.log.1_0-1-2")


def test_json_and_avro_decode_to_equal_values() -> None:
    assert parse_commit(_json(COMMIT), _instant()) == parse_commit(_avro(COMMIT), _instant())


def test_log_that_hudi_names_with_a_scheme_is_the_partitions_file() -> None:
    """Version 6, by Hudi 1.2.0: a commit that also names the log of a rolled back one, in a partition with a space."""
    stat = {**LOG, "path": "file:new york/.f-0_001.log.2_0-1-2", "logFiles": [".f-0_001.log.2_0-1-2"]}
    (result,) = parse_commit(_json(_changed(partitionToWriteStats={"new york": [stat]})), _instant()).stats
    assert (result.path, result.file_name) == ("new york/.f-0_001.log.2_0-1-2", ".f-0_001.log.2_0-1-2")
    for path in (
        "file:old york/.f-0_001.log.2_0-1-2",
        "file:/new york/.f-0_001.log.2_0-1-2",
        "1:new york/f",
        "new york",
    ):
        with pytest.raises(CorruptFile, match=r"path"):
            parse_commit(_json(_changed(partitionToWriteStats={"new york": [{**LOG, "path": path}]})), _instant())


NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: name.strip(".") != ""
)
COUNTS = st.none() | st.integers(-(2**63), 2**63 - 1)


@st.composite
def _commits(draw: st.DrawFn) -> dict[str, Any]:
    def stat(partition: str) -> dict[str, Any]:
        prefix = partition + "/" if partition else ""
        return {
            "fileId": draw(NAMES),
            "path": draw(st.none() | NAMES.map(lambda name: prefix + name)),
            "prevCommit": draw(st.none() | st.just("null") | NAMES),
            "numWrites": draw(COUNTS),
            "fileSizeInBytes": draw(COUNTS),
            "logFiles": draw(st.none() | st.lists(NAMES, max_size=2)),
        }

    partitions = draw(st.lists(st.just("") | NAMES, max_size=3, unique=True))
    return {
        "partitionToWriteStats": {name: [stat(name) for _ in range(draw(st.integers(0, 2)))] for name in partitions},
        "compacted": draw(st.none() | st.booleans()),
        "extraMetadata": draw(st.none() | st.dictionaries(NAMES, NAMES, max_size=3)),
        "operationType": draw(st.none() | st.sampled_from(["UPSERT", "compact"])),
        "partitionToReplaceFileIds": {name: draw(st.lists(NAMES, max_size=2)) for name in partitions},
    }


@given(_commits())
def test_json_and_avro_are_equal_for_any_commit(commit: dict[str, Any]) -> None:
    assert parse_commit(_json(commit), _instant()) == parse_commit(_avro(commit), _instant())


@pytest.mark.parametrize("value", [2**63 - 1, 2**41, -(2**63)])
def test_counts_and_sizes_that_no_file_has_are_bounded(value: int) -> None:
    """Hudi reads such a table; what is added up must stay within 64 bits."""
    names = ("numWrites", "numDeletes", "numInserts", "numUpdateWrites", "fileSizeInBytes")
    commit = _with_stat(**dict.fromkeys(names, value), cdcStats={"p=a/.g-0_001.log.1_0-1-2.cdc": value})
    (stat,) = parse_commit(_json(commit), _instant()).stats
    counts = (stat.num_writes, stat.num_deletes, stat.num_inserts, stat.num_update_writes)
    assert set(counts) == {2**40 if value > 0 else -(2**40)}
    sizes = (stat.file_size_bytes, *stat.change_logs.values())
    assert all(abs(size_bytes) <= 2**46 for size_bytes in sizes)


def test_unknown_fields_are_ignored() -> None:
    more = {**_with_stat(recordsStats={"val": None}, whatever=[1]), "writePartitionPaths": ["p=a"], "x": {"y": 1.5}}
    assert parse_commit(_json(more), _instant()) == parse_commit(_json(_with_stat()), _instant())


def test_null_fields_take_their_defaults() -> None:
    commit = parse_commit(_avro({"partitionToWriteStats": {}, "partitionToReplaceFileIds": {}}), _instant())
    assert (commit.operation, commit.compacted, commit.schema_json, commit.extra) == ("", False, "", {})
    assert (commit.stats, commit.replaced) == ((), ())


@pytest.mark.parametrize("encode", [_json, _avro])
@pytest.mark.parametrize(
    ("commit", "field"),
    [
        (_changed(partitionToWriteStats=None), "partitionToWriteStats"),
        (_changed(partitionToReplaceFileIds=None), "partitionToReplaceFileIds"),
        (_with_stat(fileId=None), r"partitionToWriteStats\[p=a\]\.of\[0\]\.fileId"),
        (_with_stat(fileId=""), r"fileId"),
    ],
)
def test_missing_required_field_names_instant_and_field(encode: Any, commit: dict[str, Any], field: str) -> None:
    with pytest.raises(CorruptFile, match=rf"001, file 001_002\.replacecommit of table /base lacks .*{field}"):
        parse_commit(encode(commit), _instant(), "/base")


def test_replaced_groups_are_needed_for_a_replacecommit_only() -> None:
    plain = _changed(partitionToReplaceFileIds=None)
    assert parse_commit(_json(plain), _instant("001_002.commit")).replaced == ()


@pytest.mark.parametrize(
    "commit",
    [
        _with_stat(path="../outside.parquet"),
        _with_stat(path="/etc/passwd"),
        _with_stat(path="file:/p=a/x.parquet"),
        _with_stat(path="p=a/../p=b/x.parquet"),
        _with_stat(path="p=b/x.parquet"),
        _with_stat(path="p=a"),
        _with_stat(path=7),
        _with_stat(logFiles=["../x"]),
        _with_stat(logFiles=["a/b"]),
        _with_stat(logFiles=[None]),
        _with_stat(logFiles="x"),
        _with_stat(baseFile=".."),
        _with_stat(numWrites="3"),
        _with_stat(numWrites=1.5),
        _with_stat(numWrites=True),
        _with_stat(numWrites=2**63),
        _changed(partitionToWriteStats={"../p": []}),
        _changed(partitionToWriteStats={"p=a": [7]}),
        _changed(partitionToWriteStats=[]),
        _changed(partitionToReplaceFileIds={"/p": ["x"]}),
        _changed(partitionToReplaceFileIds={"p=a": [1]}),
        _changed(compacted="false"),
        _changed(extraMetadata={"schema": {}}),
        _changed(operationType=5),
    ],
)
def test_hostile_or_mistyped_field_names_the_file(commit: dict[str, Any]) -> None:
    with pytest.raises(CorruptFile, match=r"file 001_002\.replacecommit"):
        parse_commit(_json(commit), _instant())


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"null", b"{} x", b"\xff\xfe", b"[" * 100_000, b'{"a":' + b"9" * 5000 + b"}", b"Obj\x01"]
)
def test_other_bytes_than_metadata_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptFile, match=r"replacecommit 001, file 001_002\.replacecommit"):
        parse_commit(data, _instant())


@pytest.mark.parametrize("encode", [_json, _avro])
def test_every_truncation_is_corrupt_or_equal(encode: Any) -> None:
    data = encode(_with_stat())
    whole = parse_commit(data, _instant())
    for end in range(len(data)):
        try:
            result = parse_commit(data[:end], _instant())
        except CorruptFile as error:
            assert "001_002.replacecommit" in str(error)
            continue
        assert result == whole


@pytest.mark.golden
@pytest.mark.parametrize(
    ("case", "folder", "layout"),
    [("A_merge_event_long_v6_h0150", ".hoodie", 1), ("A_merge_event_long_v9_h120", ".hoodie/timeline", 2)],
)
def test_truncations_of_a_real_commit(golden: Any, case: str, folder: str, layout: int) -> None:
    files = sorted((golden.table(case) / folder).glob("*.deltacommit"))
    file: pathlib.Path = files[-1]
    instant = _instant(file.name, layout)
    data = file.read_bytes()
    whole = parse_commit(data, instant)
    for end in range(0, len(data), 29):
        try:
            assert parse_commit(data[:end], instant) == whole
        except CorruptFile as error:
            assert file.name in str(error)


@given(st.data())
def test_damaged_bytes_give_our_errors_only(data: st.DataObject) -> None:
    damaged = bytearray(data.draw(st.sampled_from([_json(COMMIT), _avro(COMMIT)])))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert isinstance(parse_commit(bytes(damaged), _instant()), CommitMetadata)
    except (CorruptFile, UnsupportedFeature) as error:
        assert "001_002.replacecommit" in str(error)


@pytest.mark.parametrize(
    ("operation", "compacted", "service"),
    [
        ("UPSERT", False, False),
        ("BULK_INSERT", False, False),
        ("DELETE_PARTITION", False, False),
        ("INSERT_OVERWRITE", False, False),
        (None, False, False),
        ("COMPACT", True, True),
        ("COMPACT", None, True),
        ("UNKNOWN", True, True),
        ("CLUSTER", False, True),
        ("LOG_COMPACT", False, True),
        ("BUCKET_RESCALE", False, True),
        ("ALTER_SCHEMA", False, True),
    ],
)
def test_services_by_operation(operation: str | None, compacted: bool | None, service: bool) -> None:
    commit = parse_commit(_json(_changed(operationType=operation, compacted=compacted)), _instant())
    assert commit.is_service is service

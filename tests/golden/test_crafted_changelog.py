"""A native changelog (`_hoodie_operation`, as Flink writers store it). CRAFTED: Hudi did not write this table. The test
writes its files in the layout of version 6, because no Spark writer of the golden releases stores a changelog.

Facts: Hudi `HoodieOperation` (I, -U, U, D), `HoodieRecord.OPERATION_METADATA_FIELD`. A merged read treats D and -U as
deletes, a streaming read returns every record with its kind.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pyarrow as pa
import pytest

from penstock.proto.errors import CorruptFile, PositionExpired
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, Latest, Snapshot
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from tests.golden.changes import balance, folded, is_in_order, rows_of, state_of
from tests.oracle import slice_writer

pytestmark = pytest.mark.golden

OWN_FIELDS = {"_hoodie_operation": "string", "id": "string", "v": "long"}
SCHEMA = slice_writer.table_schema(OWN_FIELDS)
RECORDED = json.dumps({**SCHEMA, "fields": [f for f in SCHEMA["fields"] if f["name"] in OWN_FIELDS]})
PROPERTIES = """\
hoodie.table.name=changelog
hoodie.table.type=MERGE_ON_READ
hoodie.table.version=6
hoodie.timeline.layout.version=1
hoodie.table.recordkey.fields=id
hoodie.table.base.file.format=PARQUET
hoodie.populate.meta.fields=true
hoodie.compaction.payload.class=org.apache.hudi.common.model.OverwriteWithLatestAvroPayload
"""

Stored = tuple[str | None, str, int | None]
COMMITS: dict[int, list[list[Stored]]] = {
    1: [[("I", "a", 1), ("I", "b", 2), (None, "c", 3)]],
    2: [[("-U", "a", 1), ("U", "a", 10)], [("D", "b", 2), ("I", "d", 4)]],
    4: [[("-U", "d", 4), ("U", "d", 40), ("-U", "c", 3)]],
    5: [[("I", "b", 20), ("D", "a", 10)]],
}
"""Instant → its log blocks → records in the order in which they were stored. Instant 3 is a compaction; the last record
of instant 4 is an update whose new row is in another file group."""
KINDS = {"I": "+I", None: "+I", "-U": "-U", "U": "+U", "D": "-D"}
BASE_ROWS = [("U", "a", 10, 2), (None, "c", 3, 1), ("I", "d", 4, 2)]
STATES = {1: {"a": 1, "b": 2, "c": 3}, 2: {"a": 10, "c": 3, "d": 4}, 4: {"a": 10, "d": 40}, 5: {"b": 20, "d": 40}}


def instant(number: int) -> InstantTime:
    return InstantTime(f"2026010100000000{number}")


def record(kind: str | None, key: str, v: int | None, number: int, place: int = 0) -> dict[str, Any]:
    return {
        "_hoodie_commit_time": instant(number),
        "_hoodie_commit_seqno": f"{instant(number)}_0_{place}",
        "_hoodie_record_key": key,
        "_hoodie_partition_path": "",
        "_hoodie_file_name": "group",
        "_hoodie_operation": kind,
        "id": key,
        "v": v,
    }


class Changelog:
    """Writes the table commit by commit."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        (folder / ".hoodie").mkdir(parents=True)
        (folder / ".hoodie" / "hoodie.properties").write_text(PROPERTIES)
        self.slice, self.logs = instant(1), 0

    def commit(self, number: int, action: str, name: str, counts: tuple[int, int], *, operation: str) -> None:
        stat = {
            "fileId": "group",
            "path": name,
            "prevCommit": "null" if number == 1 or operation == "COMPACT" else self.slice,  # a slice of only logs
            "numWrites": counts[0],
            "numDeletes": counts[1],
            "numInserts": counts[0] if number == 1 else 0,
            "numUpdateWrites": 0 if number == 1 else counts[0],
            "partitionPath": "",
            "fileSizeInBytes": (self.folder / name).stat().st_size,
        }
        metadata = {
            "partitionToWriteStats": {"": [stat]},
            "compacted": operation == "COMPACT",
            "operationType": operation,
            "extraMetadata": {"schema": RECORDED},
        }
        (self.folder / ".hoodie" / f"{instant(number)}.{action}").write_text(json.dumps(metadata))

    def log(self, number: int, blocks: list[list[Stored]], deletes: list[str] | None = None) -> None:
        self.logs += 1
        name = f".group_{self.slice}.log.{self.logs}_0-1-{number}"
        written = []
        for stored in blocks:
            rows = [record(*item, number, place) for place, item in enumerate(stored)]
            written.append(slice_writer.data_block(SCHEMA, rows, instant(number)))
        if deletes:
            written.append(slice_writer.delete_block([(key, "", None) for key in deletes], instant(number)))
        (self.folder / name).write_bytes(b"".join(written))
        counts = (sum(map(len, blocks)), len(deletes or ()))
        self.commit(number, "deltacommit", name, counts, operation="UPSERT")

    def compaction(self, number: int) -> None:
        name = f"group_0-1-{number}_{instant(number)}.parquet"
        schema = arrow_schema(parse_record_schema(json.dumps(SCHEMA)))
        rows = [record(kind, key, v, by) for kind, key, v, by in BASE_ROWS]
        slice_writer.write_base(self.folder / name, schema, [rows])
        self.commit(number, "commit", name, (len(rows), 0), operation="COMPACT")
        self.slice, self.logs = instant(number), 0


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The crafted table: two commits, a compaction, two more commits."""
    changelog = Changelog(tmp_path_factory.mktemp("crafted") / "changelog")
    for number in range(1, 6):
        if number in COMMITS:
            changelog.log(number, COMMITS[number])
        else:
            changelog.compaction(number)
    return changelog.folder


def changes(form: ChangeFormat = ChangeFormat.ROWS, after: int = 0, upto: int = 0) -> Changes:
    return Changes(
        form,
        Position(instant(after)) if after else EARLIEST,
        Position(instant(upto)) if upto else Latest(),
    )


def in_order(rows: pa.Table) -> list[tuple[Any, ...]]:
    assert is_in_order(rows)
    return list(zip(*(rows[name].to_pylist() for name in ("_change_type", "id", "v", "_change_instant")), strict=True))


def stored(*numbers: int) -> list[tuple[Any, ...]]:
    return [
        (KINDS[kind], key, v, instant(number))
        for number in numbers
        for block in COMMITS[number]
        for kind, key, v in block
    ]


def test_snapshot_treats_d_and_minus_u_as_deletes(table: pathlib.Path) -> None:
    for number, state in STATES.items():
        rows = rows_of(table, Incremental(EARLIEST, Position(instant(number))))
        assert dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True)) == state
    assert rows_of(table, Snapshot()).num_rows == len(STATES[5])


def test_changes_as_rows_are_the_kinds_as_stored_in_the_order_of_the_log(table: pathlib.Path) -> None:
    """The sides of an update are separate rows; none is merged or added."""
    assert in_order(rows_of(table, changes())) == stored(1, 2, 4, 5)


@pytest.mark.parametrize(("after", "upto", "numbers"), [(1, 2, [2]), (2, 3, []), (2, 4, [4]), (4, 0, [5]), (0, 1, [1])])
def test_ranges(table: pathlib.Path, after: int, upto: int, numbers: list[int]) -> None:
    assert in_order(rows_of(table, changes(after=after, upto=upto))) == stored(*numbers)


def test_meta_columns_and_filters(table: pathlib.Path) -> None:
    whole = rows_of(table, changes())
    kinds = whole["_change_type"].to_pylist()
    assert whole["_hoodie_record_key"].to_pylist() == whole["id"].to_pylist()
    for kind, time, instant_of in zip(
        kinds, whole["_hoodie_commit_time"].to_pylist(), whole["_change_instant"].to_pylist(), strict=True
    ):
        assert time == (None if kind[0] == "-" else instant_of)
    rows = rows_of(table, changes(), where="v >= 10 AND _change_type <> '-D'", columns=("id", "_change_type"))
    assert rows.to_pydict() == {"id": ["a", "d", "b"], "_change_type": ["+U", "+U", "+I"]}


def test_stored_changes_lead_to_the_state(table: pathlib.Path) -> None:
    for number, state in STATES.items():
        result = rows_of(table, changes(upto=number))
        rows = rows_of(table, Incremental(EARLIEST, Position(instant(number))))
        assert balance(result) == dict(state_of(rows))
        assert sorted(key for _, key in folded(result, {})) == sorted(state)


def test_hudi_format_compares_states(table: pathlib.Path) -> None:
    """One change per key and commit, from the rows before and after it."""
    rows = rows_of(table, changes(ChangeFormat.HUDI))
    images = [
        [None if text is None else json.loads(text)["v"] for text in rows[side].to_pylist()]
        for side in ("before", "after")
    ]
    actual = sorted(zip(rows["ts_ms"].to_pylist(), rows["op"].to_pylist(), *images, strict=True), key=str)
    expected = [
        (instant(1), "i", None, 1),
        (instant(1), "i", None, 2),
        (instant(1), "i", None, 3),
        (instant(2), "d", 2, None),
        (instant(2), "i", None, 4),
        (instant(2), "u", 1, 10),
        (instant(4), "d", 3, None),
        (instant(4), "u", 4, 40),
        (instant(5), "d", 10, None),
        (instant(5), "i", None, 20),
    ]
    assert actual == sorted(expected, key=str)


def test_delete_block_is_deletes_of_keys(tmp_path: pathlib.Path) -> None:
    changelog = Changelog(tmp_path / "t")
    changelog.log(1, COMMITS[1])
    changelog.log(2, [], deletes=["a", "c"])
    rows = rows_of(changelog.folder, changes(after=1))
    assert rows["_change_type"].to_pylist() == ["-D", "-D"]
    assert rows["_hoodie_record_key"].to_pylist() == ["a", "c"]


def test_unknown_kind_is_corrupt(tmp_path: pathlib.Path) -> None:
    changelog = Changelog(tmp_path / "t")
    changelog.log(1, [[("I", "a", 1), ("+U", "b", 2)]])
    with pytest.raises(CorruptFile, match=r"instant 20260101000000001 .*_hoodie_operation '\+U', expected one of I"):
        rows_of(changelog.folder, changes())


def test_missing_log_is_an_error(tmp_path: pathlib.Path) -> None:
    changelog = Changelog(tmp_path / "t")
    for number in (1, 2):
        changelog.log(number, COMMITS[number])
    (lost,) = changelog.folder.glob(".group_*.log.1_*")
    lost.unlink()
    with pytest.raises((PositionExpired, CorruptFile), match=rf"{lost.name}.*gone|{lost.name}.*missing"):
        rows_of(changelog.folder, changes())
    assert in_order(rows_of(changelog.folder, changes(after=1))) == stored(2)

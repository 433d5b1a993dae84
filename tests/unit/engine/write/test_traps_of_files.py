"""How a writer damages a table through its data files and statistics, and that Penstock's does not.

The numbers are those of the traps that real Hudi showed to a prototype; `test_traps_of_timeline` and
`tests/interop/test_write_traps.py` have the others.
"""

from __future__ import annotations

import datetime
import io
import json
import pathlib
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.proto.errors import ConfigurationError, PenstockError, SchemaMismatch, StorageError, TableError
from penstock.table.files.names import BaseName, LogName, parse_file_name
from penstock.table.parquet.bloom_filter import parse_bloom_filter
from penstock.table.parquet.key_range import key_range
from penstock.writer.kernels.bloom import set_key_bits
from tests.unit.engine.write.recorded_storage import FIRST, KINDS, SCHEMA, SECOND, Kind, Lake, Row, arrow, upserted
from tests.unit.engine.write.test_traps_of_timeline import set_property

each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind)))
copy_on_write = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind[1] == "copy_on_write"])


def history(lake: Lake) -> Iterator[penstock.WriteResult]:
    """One write of each operation, when it is asked for."""
    yield lake.write(FIRST)
    yield lake.write(SECOND)
    yield lake.write([("more", 1, "oslo"), ("k1", 0, "oslo")], "insert")
    yield lake.write([("k3", 5, "oslo"), ("unknown", 1, "riga")], deleted=["k3", "unknown"])
    yield lake.write([("k5", 0, "oslo")], "delete")
    yield lake.write([("k2", 1, "riga"), ("k7", 1, "riga")], "insert_overwrite")
    yield lake.write([("k2", 2, "riga")])


def footer(path: pathlib.Path) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in pq.read_metadata(path).metadata.items()}


@each_kind
def test_trap_02_instant_has_one_file_of_a_group(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Hudi goes by the listing: of two files it may show the one that is not in the commit."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    instants = [result.instant for result in history(lake)]
    stats = [(instant, stat) for instant in instants for stat in lake.stats(instant)]
    groups = Counter((instant, stat.partition, stat.file_id) for instant, stat in stats)
    assert max(groups.values()) == 1 and len(groups) >= 10
    assert sorted(stat.path for _, stat in stats) == sorted(lake.files())


@each_kind
def test_trap_05_partition_has_its_metadata_before_a_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Without it Hudi does not see the partition."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    assert len(list(history(lake))) == 7
    plain = Lake(tmp_path / "plain", kind, monkeypatch, partition_by=())
    plain.write(FIRST)
    for one, partitions in ((lake, {"oslo", "riga", "bern"}), (plain, {""})):
        files = one.storage.paths("new_file")
        assert {file.rpartition("/")[0] for file in files} == partitions
        for file in files:
            folder = file.rpartition("/")[0]
            metadata = f"{folder}/.hoodie_partition_metadata" if folder else ".hoodie_partition_metadata"
            assert one.storage.place("create", metadata) < one.storage.place("new_file", file)
            depth = 1 if folder else 0
            assert f"partitionDepth={depth}\n" in (one.path / metadata).read_text()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind[2] == "bucket"])
def test_trap_06_other_number_of_buckets_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """A key in another bucket than before is a second row."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    before = lake.files()
    with pytest.raises(ConfigurationError, match="got buckets=3, and the table was created with 2"):
        lake.write(SECOND, buckets=3)
    for name in ("hoodie.index.type", "hoodie.bucket.index.num.buckets"):
        set_property(lake.path, name, "")
    with pytest.raises(ConfigurationError, match="does not say which index"):
        lake.write(SECOND)
    for other in (1, 3, 4, 5, 8, 16):
        with pytest.raises(TableError, match=f"got buckets={other}, .* its files have 2 buckets: writing would repeat"):
            lake.write(FIRST, index="bucket", buckets=other)
    with pytest.raises(TableError, match="its file groups are buckets"):
        lake.write(FIRST, index="simple")
    assert lake.files() == before
    lake.write(SECOND, index="bucket", buckets=2)
    assert lake.rows() == upserted(FIRST, SECOND)
    third: list[Row] = [("k5", 3, "oslo"), ("k6", 3, "riga"), ("k6", 3, "wien")]
    lake.write(third, index="bucket")
    assert lake.rows() == upserted(upserted(FIRST, SECOND), third), "the files tell the number"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind[2] == "simple"])
def test_trap_06_bucket_index_is_refused_where_files_are_none(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Also for rows of a new partition, whose file groups would be the only buckets."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    set_property(lake.path, "hoodie.index.type", "")
    before = lake.files()
    for number in (None, 2):
        with pytest.raises(TableError, match="are none of a bucket index"):
            lake.write([("k1", 1, "wien")], index="bucket", buckets=number)
    assert lake.files() == before
    lake.write(SECOND, index="simple")
    assert lake.rows() == upserted(FIRST, SECOND)


def test_trap_06_number_of_buckets_is_needed_where_keys_do_not_tell_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path / "t", KINDS[0], monkeypatch)
    for name in ("hoodie.index.type", "hoodie.bucket.index.num.buckets"):
        set_property(lake.path, name, "")
    with pytest.raises(ConfigurationError, match="Hudi does not store: give `buckets`"):
        lake.write(FIRST, index="bucket")
    lake.write(FIRST[:1], index="bucket", buckets=2)
    with pytest.raises(ConfigurationError, match="which the keys in its files do not tell: give `buckets`"):
        lake.write(FIRST, index="bucket")


def test_trap_06_keys_of_groups_with_only_logs_are_compared(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flink's writers create such groups."""
    lake = Lake(tmp_path / "t", KINDS[0], monkeypatch)
    lake.write(FIRST)
    lake.write([(key, 2, city) for key, _, city in FIRST])
    for file in lake.path.rglob("*.parquet"):
        file.unlink()
    for name in ("hoodie.index.type", "hoodie.bucket.index.num.buckets"):
        set_property(lake.path, name, "")
    first = next(iter(sorted(lake.timeline_folder.glob("*.deltacommit"))))
    for file in lake.timeline_folder.glob(first.name[:17] + "*"):
        file.unlink()
    assert lake.rows() == [(key, 2, city) for key, _, city in sorted(FIRST)]
    with pytest.raises(TableError, match=r"got buckets=4, .* its files have 2 buckets"):
        lake.write(FIRST, index="bucket", buckets=4)
    lake.write([("k1", 3, "oslo")], index="bucket")
    assert lake.rows() == upserted([(key, 2, city) for key, _, city in FIRST], [("k1", 3, "oslo")])


@each_kind
def test_trap_07_base_files_have_bloom_filters_and_key_ranges(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Hudi's bloom index fails without them, and repeats keys that they miss."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    odd = ["é", "ﬀ", "\U0001f600", "z" * 200]
    lake.write([(key, 1, "oslo") for key in odd])
    lake.write([(key, 2, "oslo") for key in [*odd, "later"]])
    files = [lake.path / file for file in lake.files() if file.endswith(".parquet")]
    assert files
    for file in files:
        entries, keys = footer(file), pq.read_table(file)["_hoodie_record_key"].combine_chunks()
        assert (entries["hoodie_min_record_key"], entries["hoodie_max_record_key"]) == key_range(keys)
        texts = sorted(keys.to_pylist(), key=lambda text: text.encode("utf-16-be"))
        assert (texts[0], texts[-1]) == key_range(keys)
        kept = (entries["org.apache.hudi.bloomfilter"], entries["hoodie_bloom_filter_type_code"])
        again = parse_bloom_filter(*kept, "t")
        again.add(keys, set_key_bits)
        bits = parse_bloom_filter(*kept, "t")
        assert [np.array_equal(*pair) for pair in zip(again.rows, bits.rows, strict=True)] == [True] * len(bits.rows)
        bits.add(pa.array(["another key"]), set_key_bits)
        assert not all(np.array_equal(*pair) for pair in zip(again.rows, bits.rows, strict=True))


@each_kind
def test_trap_08_each_file_group_has_a_base_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Hudi's bloom and simple index search base files alone."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    assert len(list(history(lake))) == 7
    lake.write([("never", 0, "wien")], "delete")
    names = [parse_file_name(file.rpartition("/")[2]) for file in lake.files()]
    logs = {name.file_id for name in names if isinstance(name, LogName)}
    bases = {name.file_id for name in names if isinstance(name, BaseName)}
    assert logs <= bases
    assert bool(logs) == (kind[1] == "merge_on_read")
    assert not list(lake.path.glob("wien/*.parquet"))


@each_kind
def test_trap_18_statistics_name_each_file_with_its_size_and_rows(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Incremental readers, cleans and conflict checks of Hudi go by them."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    known: set[str] = set()
    for result in history(lake):
        new = lake.files() - known
        stats = lake.stats(result.instant)
        assert {stat.path for stat in stats} == new
        for stat in stats:
            path = lake.path / stat.path
            assert path.stat().st_size == stat.file_size_bytes > 0
            if path.suffix == ".parquet":
                assert pq.read_metadata(path).num_rows == stat.num_writes
                assert stat.num_inserts + stat.num_update_writes <= stat.num_writes
            assert stat.partition == path.parent.relative_to(lake.path).as_posix()
        known |= new
        assert sum(stat.num_inserts for stat in stats) == result.inserted


@copy_on_write
def test_trap_19_rewritten_file_has_its_previous_instant(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """With `null` Hudi's clean never removes the older file, and a change is read as an insert."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    first, second = lake.write(FIRST).instant, lake.write(SECOND).instant
    assert {stat.prev_commit for stat in lake.stats(first)} == {""}
    by_partition = {stat.partition: stat.prev_commit for stat in lake.stats(second)}
    assert by_partition == {"oslo": first, "riga": first, "bern": ""}
    third = lake.write([("new", 3, "bern")]).instant
    assert [stat.prev_commit for stat in lake.stats(third)] == [second]


@each_kind
def test_trap_20_each_commit_has_the_schema_of_its_files(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Readers take the newest commit's schema: an older one hides the columns added since."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    wider = arrow(SECOND).append_column("added", pa.array([1.5, None, 2.5]))
    monkeypatch.setattr("tests.unit.engine.write.recorded_storage.arrow", lambda rows, deleted: wider)
    instants = [lake.write(SECOND).instant]
    monkeypatch.undo()
    narrow = [("k3", 9, "oslo")]
    instants += [penstock.write(str(lake.path), arrow(narrow), name).instant for name in ("upsert", "delete", "insert")]
    instants.append(penstock.write(str(lake.path), arrow([]), "insert_overwrite_table").instant)
    table = lake.table()
    for instant in instants:
        found = table.timeline().completed_write(instant)
        assert found is not None
        schema = json.loads(table.commit(found).schema_json)
        assert [field["name"] for field in schema["fields"]] == [*SCHEMA.names, "added"]


@each_kind
@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "insert_overwrite"])
def test_trap_21_marked_delete_is_no_row(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, operation: str
) -> None:
    """Readers do not look at the marker of a row in a base file: the deleted row would be visible."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write([("a", 1, "oslo"), ("b", 1, "oslo"), ("c", 1, "riga")], operation, deleted=["b", "c"])
    assert lake.rows() == [("a", 1, "oslo")]
    if operation != "bulk_insert":
        lake.write([("d", 1, "oslo"), ("e", 1, "oslo")], operation, deleted=["e"])
        assert [row[0] for row in lake.rows()] == (["d"] if operation == "insert_overwrite" else ["a", "d"])
    for file in lake.path.rglob("*.parquet"):
        assert not any(pq.read_table(file)["_hoodie_is_deleted"].to_pylist())


@each_kind
@pytest.mark.parametrize("operation", ["upsert", "insert"])
def test_trap_23_null_ordering_value_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, operation: str
) -> None:
    """Hudi's reader fails on it, also of a delete."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    before = lake.everything()
    for deleted in (False, True):
        rows = pa.Table.from_pylist([{"id": "x", "seq": None, "city": "oslo", "_hoodie_is_deleted": deleted}], SCHEMA)
        with pytest.raises(SchemaMismatch, match="ordering column 'seq' is null"):
            penstock.write(str(lake.path), rows, operation)
    assert lake.everything() == before


@copy_on_write
def test_trap_26_copied_rows_keep_their_meta_columns(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """With a new commit time incremental readers get the whole file as changed."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    rows: list[Row] = [(f"k{n}", 5, "oslo") for n in range(20)]
    first = lake.write(rows)
    names = [f"_hoodie_{name}" for name in ("commit_time", "commit_seqno", "record_key", "partition_path")]
    meta = ["id", *names]

    def stored() -> dict[str, dict[str, str]]:
        found = penstock.read(str(lake.path), columns=["id", *names, "_hoodie_file_name"]).read_all().to_pylist()
        return {row["id"]: row for row in found}

    before = stored()
    second = lake.write([("k3", 6, "oslo"), ("k4", 1, "oslo")])
    after = stored()
    assert {name: after["k3"][name] == before["k3"][name] for name in meta} == {
        "id": True,
        "_hoodie_commit_time": False,
        "_hoodie_commit_seqno": False,
        "_hoodie_record_key": True,
        "_hoodie_partition_path": True,
    }
    assert after["k3"]["_hoodie_commit_time"] == second.instant
    for key in before.keys() - {"k3"}:  # k4 too: the stored row is newer
        assert [after[key][name] for name in meta] == [before[key][name] for name in meta]
    same_file = [key for key in before if after[key]["_hoodie_file_name"] == after["k3"]["_hoodie_file_name"]]
    assert len(same_file) > 1 and after["k3"]["_hoodie_file_name"] != before["k3"]["_hoodie_file_name"]
    seen = first.completion_time
    changes = penstock.read(str(lake.path), query="incremental", after=seen).read_all()
    assert changes["id"].to_pylist() == ["k3"]


@each_kind
@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table"])
def test_trap_28_overwrite_makes_new_file_groups(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, operation: str
) -> None:
    """A replaced file group is hidden, whatever is written into it later."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    old = {
        stat.file_id for file in lake.table().timeline().completed_writes for stat in lake.table().commit(file).stats
    }
    again = [row for row in FIRST if row[2] == "oslo"]
    result = lake.write(again, operation)
    new = {stat.file_id for stat in lake.stats(result.instant)}
    assert new and not new & old
    if kind[2] == "bucket":
        assert {file_id[:8] for file_id in new} <= {file_id[:8] for file_id in old}
    lake.write([("k1", 9, "oslo")])
    kept = [] if operation == "insert_overwrite_table" else [row for row in FIRST if row[2] == "riga"]
    assert lake.rows() == upserted(kept + again, [("k1", 9, "oslo")])


@each_kind
def test_trap_30_files_of_completed_writes_stay(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Removing an old file takes time travel, running queries and savepoints their rows. Only a clean may do it."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    states = []
    for result in history(lake):
        states.append((result.instant, lake.rows()))

    def fail(method: str, path: str) -> None:
        if method == "new_file" and "riga" in path:
            raise StorageError("the disk is full")

    lake.storage.before = fail
    with pytest.raises(StorageError):
        lake.write(SECOND)
    (failed,) = lake.table().rolled_back(lake.table().timeline())
    removed = [path for path in lake.storage.paths("remove") if not path.startswith(".hoodie")]
    assert all(failed in path for path in removed)
    assert bool(removed) == (kind[:2] != (6, "merge_on_read"))  # logs of version 6 stay, and a block cancels theirs
    for instant, rows in states:
        then = penstock.read(str(lake.path), as_of=instant).read_all()
        assert sorted((row["id"], row["seq"], row["city"]) for row in then.to_pylist()) == rows


@each_kind
def test_trap_32_files_are_never_overwritten(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Hadoop keeps a checksum beside each file, and fails on other bytes. A removed file takes its checksum along."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    before: dict[str, bytes] = {}
    for operation in ("upsert", "insert", "insert_overwrite", "delete"):
        lake.write(SECOND, operation)
        now = lake.everything()
        assert {name: data for name, data in now.items() if name in before} == before
        before = now
    assert {path.rpartition("/")[0] for path in lake.storage.paths("replace")} == {".hoodie/.heartbeat"}
    target = lake.path / "oslo" / "file.parquet"
    beside = target.with_name(".file.parquet.crc")
    for file in (target, beside):
        file.write_bytes(b"x")
    lake.storage.remove("oslo/file.parquet")
    assert not target.exists() and not beside.exists()


ODD = pa.table(
    {
        "id": pa.array(["a", "b"], pa.large_string()),
        "seq": pa.array([1, 2], pa.uint16()),
        "city": pa.array(["oslo", "oslo"]).dictionary_encode(),
        "at": pa.array([1_700_000_000_000_001_000, None], pa.timestamp("ns", "UTC")),
        "local": pa.array([1_700_000_000_000_001, None], pa.timestamp("us")),
        "price": pa.array([None, 7], pa.decimal128(10, 2)),
    }
)


@each_kind
def test_trap_33_parquet_has_the_forms_that_hudi_reads(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """No INT96, no nanoseconds, no unsigned integers; and pyarrow keeps the footer's entries."""
    lake = Lake(tmp_path / "t", kind, monkeypatch, schema=ODD.schema)
    for _ in range(2):
        penstock.write(str(lake.path), ODD)
    forms = {
        "id": ("BYTE_ARRAY", "String"),
        "seq": ("INT32", "None"),
        "city": ("BYTE_ARRAY", "String"),
        "at": ("INT64", "Timestamp(isAdjustedToUTC=true, timeUnit=microseconds"),
        "local": ("INT64", "Timestamp(isAdjustedToUTC=false, timeUnit=microseconds"),
        "price": ("FIXED_LEN_BYTE_ARRAY", "Decimal(precision=10, scale=2)"),
    }
    files = list(lake.path.rglob("*.parquet"))
    blocks = [data[data.index(b"PAR1") :] for data in (file.read_bytes() for file in lake.path.rglob("*.log.*"))]
    assert bool(blocks) == (kind[1] == "merge_on_read")
    for source in [*files, *(io.BytesIO(block[: block.rindex(b"PAR1") + 4]) for block in blocks)]:
        metadata = pq.read_metadata(source)
        schema = metadata.schema
        columns = {schema.column(place).name: schema.column(place) for place in range(len(schema))}
        for name, (physical, logical) in forms.items():
            assert columns[name].physical_type == physical
            assert str(columns[name].logical_type).startswith(logical)
        assert b"parquet.avro.schema" in metadata.metadata and b"ARROW:schema" not in metadata.metadata
    read = penstock.read(str(lake.path), columns=["id", "at"]).read_all().to_pylist()
    moment = datetime.datetime(2023, 11, 14, 22, 13, 20, 1, datetime.UTC)
    assert sorted((row["id"], row["at"]) for row in read) == [("a", moment), ("b", None)]
    finer = ODD.set_column(3, "at", pa.array([1_700_000_000_000_001_001, None], pa.timestamp("ns", "UTC")))
    with pytest.raises(PenstockError, match="does not fit its type"):
        penstock.write(str(lake.path), finer)

"""How a writer damages a table through its data files and statistics, and that Penstock's does not.

The numbers are those of the traps that real Hudi showed to a prototype; `test_traps_of_rows`, `test_traps_of_timeline`
and `tests/interop/test_write_traps.py` have the others.
"""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.proto.errors import ConfigurationError, StorageError, TableError
from penstock.table.files.names import BaseName, LogName, parse_file_name
from penstock.table.parquet.bloom_filter import parse_bloom_filter
from penstock.table.parquet.key_range import key_range
from penstock.writer.kernels.bloom import set_key_bits
from tests.unit.engine.write.recorded_storage import (
    FIRST,
    KINDS,
    SECOND,
    Kind,
    Lake,
    Row,
    copy_on_write,
    each_kind,
    upserted,
)
from tests.unit.engine.write.test_traps_of_timeline import set_property


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

"""Event-time bounds of single files: logs of Parquet blocks, built block by block."""

from __future__ import annotations

import io
import pathlib
import struct
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.enumerator.planning.event_time.bounds import EventTimeColumn
from penstock.enumerator.planning.event_time.file_bounds import FileBounds, FooterCache
from penstock.proto.errors import CorruptFile
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import EventTimeBounds, FileRef, NoEventTimes, UnknownBounds, VisibleInstants
from penstock.table.log.blocks import MAGIC, BlockKind
from penstock.table.schema.avro import Primitive
from penstock.table.storage.filesystem import Storage, open_storage

UTC_US = pa.timestamp("us", "UTC")
FAR_FUTURE = 2**60
COLUMN = EventTimeColumn("t", Primitive("long", "timestamp-micros"))
ONE, TWO, OTHER = (f"2026010100000000{n}" for n in range(3))


def parquet(times: list[int | None], **options: Any) -> bytes:
    sink = io.BytesIO()
    ids = pa.array([str(n) for n in range(len(times))], pa.string())
    pq.write_table(pa.table({"id": ids, "t": pa.array(times, UTC_US)}), sink, row_group_size=2, **options)
    return sink.getvalue()


def block(kind: BlockKind, content: bytes = b"", instant: str = ONE, **header: str) -> bytes:
    """A block as Hudi writes it (`HoodieLogFormatWriter`)."""
    ordinals = {"target": 1, "schema": 2, "command": 3}
    entries = {0: instant.encode()} | {
        ordinals[name]: committed_times.encode() for name, committed_times in header.items()
    }
    body = struct.pack(">iii", 1, kind, len(entries))
    body += b"".join(struct.pack(">ii", k, len(v)) + v for k, v in entries.items())
    body += struct.pack(">q", len(content)) + content + struct.pack(">i", 0)
    size = len(body) + 8
    return MAGIC + struct.pack(">q", size) + body + struct.pack(">q", size + 6)


def data(times: list[int | None], instant: str = ONE, **options: Any) -> bytes:
    return block(BlockKind.PARQUET_DATA, parquet(times, **options), instant)


def rollback(target: str) -> bytes:
    return block(BlockKind.COMMAND, instant=OTHER, target=target, command="0")


@dataclass
class Table:
    """The storage of a table, with counts of opened files."""

    storage_of: Storage
    opened: list[str] = field(default_factory=list)

    @property
    def base_path(self) -> str:
        return self.storage_of.base_path

    @property
    def storage(self) -> Table:
        return self

    def open_input(self, path: str) -> pa.NativeFile:
        self.opened.append(path)
        return self.storage_of.open_input(path)


@dataclass
class Slice:
    """Files of a slice in a folder."""

    folder: pathlib.Path
    column: EventTimeColumn | None = COLUMN
    visible: VisibleInstants = field(default_factory=lambda: VisibleInstants(frozenset([InstantTime(ONE)])))

    def __post_init__(self) -> None:
        self.table = Table(open_storage(str(self.folder)))
        self.times = FileBounds(self.table, self.column, FooterCache())  # type: ignore[arg-type]

    def file(self, name: str, content: bytes) -> FileRef:
        (self.folder / name).write_bytes(content)
        return FileRef(name, len(content))

    def bounds(self, *logs: bytes, base: bytes | None = None) -> object:
        refs = [self.file(f"f.log.{number}", content) for number, content in enumerate(logs)]
        return self.times.of_slice(None if base is None else self.file("b.parquet", base), refs, self.visible)


@pytest.fixture
def files(tmp_path: pathlib.Path) -> Slice:
    return Slice(tmp_path)


def test_bounds_of_a_slice_cover_its_base_file_and_its_parquet_blocks(files: Slice) -> None:
    logs = [data([5, None, 9]) + data([7]), data([40, 30])]
    assert files.bounds(*logs, base=parquet([2, 8, 3])) == EventTimeBounds(2, 40)
    assert files.bounds(*logs) == EventTimeBounds(5, 40)


def test_blocks_of_other_instants_do_not_affect_bounds(files: Slice) -> None:
    logs = data([5]) + data([-FAR_FUTURE, FAR_FUTURE], TWO)
    assert files.bounds(logs) == EventTimeBounds(5, 5)
    files.visible = VisibleInstants(frozenset([InstantTime(ONE), InstantTime(TWO)]))
    assert files.bounds(logs) == EventTimeBounds(-FAR_FUTURE, FAR_FUTURE), "the same file, seen by another query"


def test_rolled_back_block_does_not_affect_bounds(files: Slice) -> None:
    """Its instant is older than the active timeline, so only the rollback block shows it (`HoodieCommandBlock`)."""
    files.visible = VisibleInstants(frozenset([InstantTime(ONE)]), archived_before="9")
    undone = data([FAR_FUTURE], TWO)
    assert files.bounds(data([5]) + undone) == EventTimeBounds(5, FAR_FUTURE)
    assert files.bounds(data([5]) + undone, rollback(TWO)) == EventTimeBounds(5, 5)
    assert files.bounds(data([5]), undone + rollback(TWO)) == EventTimeBounds(5, 5)
    assert files.bounds(rollback(TWO), undone) == EventTimeBounds(FAR_FUTURE, FAR_FUTURE), "written after it, it counts"


def test_deletes_and_nulls_alone_have_no_event_time(files: Slice) -> None:
    deletes = block(BlockKind.DELETE, b"never looked at")
    assert files.bounds(deletes) == NoEventTimes()
    assert files.bounds(deletes, data([None, None, None])) == NoEventTimes()
    assert files.bounds(deletes, base=parquet([None])) == NoEventTimes()
    assert files.bounds(deletes, base=parquet([4])) == EventTimeBounds(4, 4)


@pytest.mark.parametrize(
    "log",
    [
        block(BlockKind.AVRO_DATA, b"x"),
        data([5]) + block(BlockKind.AVRO_DATA, b"x"),
        block(BlockKind.HFILE_DATA, b"x"),
        data([5], write_statistics=False),
        data([5], use_deprecated_int96_timestamps=True),
        block(BlockKind.PARQUET_DATA, b"no Parquet at all"),
        block(BlockKind.PARQUET_DATA, parquet([5])[:-1]),
        block(BlockKind.PARQUET_DATA, b""),
        block(BlockKind.PARQUET_DATA, b"\xff\xff\xff\x7fPAR1"),
        data([5]) + b"half a block",
        data([5])[:-1],
        data([5]) + data([6])[:40],
        block(BlockKind.COMMAND, command="7", target=ONE),
        block(BlockKind.CORRUPT, b"x"),
        block(BlockKind.DELETE, b"x").replace(struct.pack(">ii", 1, 1), struct.pack(">ii", 2, 1), 1),
        b"",
        b"#HUDI#",
    ],
)
def test_bounds_of_a_log_with_data_outside_parquet_blocks_are_unknown(files: Slice, log: bytes) -> None:
    assert files.bounds(log, base=parquet([1])) == UnknownBounds()


def test_bounds_of_a_log_shorter_than_planned_are_unknown(files: Slice) -> None:
    ref = files.file("f.log.1", data([5]))
    longer = FileRef(ref.path, ref.size_bytes + 1)
    assert files.times.of_slice(None, [longer], files.visible) == UnknownBounds()


def test_missing_log_is_an_error_with_its_name(files: Slice) -> None:
    with pytest.raises(CorruptFile, match=r"f\.log\.9 of table .* is missing"):
        files.times.of_slice(None, [FileRef("f.log.9", 5)], files.visible)


def test_block_contents_are_not_read(files: Slice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the framing and the end of a block of a megabyte are read."""
    times = list(range(200_000))
    log = data([1]) + block(BlockKind.PARQUET_DATA, parquet_large(times)) + data([FAR_FUTURE], TWO)
    read_sizes: list[int] = []

    class Counting:
        def __init__(self, inner: pa.NativeFile) -> None:
            self.inner = inner

        def __enter__(self) -> Counting:
            return self

        def __exit__(self, *_: object) -> None:
            self.inner.close()

        def size(self) -> int:
            return int(self.inner.size())

        def read_at(self, size: int, offset: int) -> bytes:
            read_sizes.append(size)
            return bytes(self.inner.read_at(size, offset))

    opened = files.table.open_input
    monkeypatch.setattr(files.table, "open_input", lambda path: Counting(opened(path)))
    assert len(log) > 1 << 20
    assert files.bounds(log) == EventTimeBounds(0, 199_999)
    assert sum(read_sizes) < len(log) // 2


def parquet_large(times: list[int]) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"t": pa.array(times, UTC_US)})
    pq.write_table(table, sink, use_dictionary=False, compression="none", column_encoding="PLAIN")
    return sink.getvalue()


def test_file_is_read_once_for_each_column(files: Slice) -> None:
    for _ in range(3):
        assert files.bounds(data([5]), data([6]), base=parquet([4])) == EventTimeBounds(4, 6)
    assert sorted(files.table.opened) == ["b.parquet", "f.log.0", "f.log.1"]
    other = FileBounds(files.table, EventTimeColumn("id", Primitive("string")), files.times.cache)  # type: ignore[arg-type]
    assert other.of_slice(FileRef("b.parquet", len(parquet([4]))), [], files.visible) == UnknownBounds()
    assert len(files.table.opened) == 4
    grown = files.file("f.log.0", data([5]) + data([1]))
    assert files.times.of_slice(None, [grown], files.visible) == EventTimeBounds(1, 5), (
        "an appended log is another file"
    )


CDC = BlockKind.CDC_DATA


@pytest.mark.parametrize(
    ("content", "alone"),
    [
        (block(CDC, schema='{"fields":[{"name":"op"},{"name":"record_key"}]}'), True),
        (block(CDC, schema='{"fields":[{"name":"op"},{"name":"before"}]}'), False),
        (block(CDC, schema='{"fields":[{"name":"op"}]}') + block(CDC, schema='{"fields":[{"name":"after"}]}'), False),
        (block(CDC), False),
        (block(CDC, schema='{"fields":[{"name":"op"}]}')[:-1], False),
    ],
)
def test_logged_changes_without_images_are_detected_by_their_schema(files: Slice, content: bytes, alone: bool) -> None:
    assert files.times.logs_keys_only(files.file(".f.log.1.cdc", content)) is alone


TIMES = st.lists(st.one_of(st.none(), st.integers(-(2**50), 2**50)), max_size=5)
BLOCKS = st.lists(
    st.one_of(
        st.tuples(st.just("data"), st.sampled_from([ONE, TWO, OTHER]), TIMES),
        st.tuples(st.just("rollback"), st.sampled_from([ONE, TWO]), st.just([])),
        st.tuples(st.just("deletes"), st.just(ONE), st.just([])),
    ),
    max_size=4,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    base=st.none() | TIMES,
    logs=st.lists(BLOCKS.filter(bool), max_size=3),
    members=st.frozensets(st.sampled_from([InstantTime(ONE), InstantTime(TWO)])),
)
def test_bounds_are_those_of_the_values_that_count(
    tmp_path: pathlib.Path,
    base: list[int | None] | None,
    logs: list[list[tuple[str, str, list[int | None]]]],
    members: frozenset[InstantTime],
) -> None:
    """Compared with a model: blocks of visible instants, without those that a later rollback removes."""
    files = Slice(tmp_path, visible=VisibleInstants(members))
    counting: list[tuple[str, list[int | None]]] = []
    contents = []
    for log in logs:
        content = b""
        for kind, instant, times in log:
            if kind == "data":
                content += data(times, instant)
                counting.append((instant, times))
            elif kind == "rollback":
                content += rollback(instant)
                counting = [item for item in counting if item[0] != instant]
            else:
                content += block(BlockKind.DELETE, b"d", instant)
        contents.append(content)
    committed_times = [times for instant, times in counting if instant in members]
    values = [value for times in ([base] if base else []) + committed_times for value in times if value is not None]
    result = files.bounds(*contents, base=None if base is None else parquet(base))
    assert result == (EventTimeBounds(min(values), max(values)) if values else NoEventTimes())

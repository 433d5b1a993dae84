"""Rows of a range with the instant of a table service: identified by the slice that the service rewrote."""

from __future__ import annotations

import pathlib
from dataclasses import replace
from typing import Any

import pytest

from penstock.proto.errors import PositionExpired
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import CommitTimeOrdering, Exclusions, FileRef, Origin, RowLineage, RowsOf, Split
from penstock.reader.read_split import ReadOptions
from tests.oracle import slice_writer
from tests.unit.reader.slices import SliceFolder

FIELDS: dict[str, Any] = {"ts": "long", "v": "string"}
SERVICE = InstantTime("003")
ROWS = RowsOf(frozenset({InstantTime("002")}), frozenset({SERVICE}))


def row(key: str, value: str, instant: str) -> dict[str, Any]:
    return {"_hoodie_record_key": key, "_hoodie_commit_time": instant, "ts": 1, "v": value}


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> SliceFolder:
    """A base file as a compaction writes it after log compaction 003 of 001 (a, b) and 002 (b, c)."""
    created = SliceFolder(tmp_path, FIELDS, CommitTimeOrdering())
    created.write_base([[row("a", "1", "003"), row("b", "2", "003")], [row("c", "2", "003"), row("d", "0", "000")]])
    return created


def origin(folder: SliceFolder, *, whole: bool = True) -> Split:
    """The slice that the log compaction rewrote."""
    (folder.folder / "old").mkdir()
    old = SliceFolder(folder.folder / "old", FIELDS, CommitTimeOrdering())
    old.write_base([[row(key, "0", "000") for key in "abcd"]])
    first, second = [row("a", "1", "001"), row("b", "1", "001")], [row("b", "2", "002"), row("c", "2", "002")]
    old.write_log(slice_writer.data_block(old.avro, first, "001"))
    if whole:
        old.write_log(slice_writer.data_block(old.avro, second, "002"))
    both = [row("a", "1", "003"), row("b", "2", "003"), row("c", "2", "003")]
    old.write_log(slice_writer.data_block(old.avro, both, "003", compacted="001,002"))
    created = old.split(split_id="old")
    assert created.base is not None

    def below(file: FileRef) -> FileRef:
        return replace(file, path=f"old/{file.path}")

    return replace(created, base=below(created.base), logs=tuple(map(below, created.logs)))


def read(folder: SliceFolder, ancestry: RowLineage | None, **more: Any) -> list[str]:
    result = folder.read(split=folder.split(ancestry=ancestry), rows=ROWS, columns=("v", "_hoodie_record_key"), **more)
    return [key for batch in result for key in batch.batch.column("_hoodie_record_key").to_pylist()]


@pytest.mark.parametrize("options", [ReadOptions(), ReadOptions(batch_rows=1, compiled=False)])
def test_origin_decides_whether_a_row_is_in_the_range(folder: SliceFolder, options: ReadOptions) -> None:
    ancestry = RowLineage(origins=(Origin(SERVICE, (origin(folder),)),))
    assert read(folder, ancestry, options=options) == ["b", "c"]
    assert read(folder, ancestry, options=options, start=2) == ["c"]
    assert read(folder, ancestry, options=options, where="v = '2' and _hoodie_record_key <> 'c'") == ["b"]
    only_values = folder.read(split=folder.split(ancestry=ancestry), rows=ROWS, columns=("v",), options=options)
    assert [batch.batch.schema.names for batch in only_values] == [["v"]] * len(only_values)


def test_all_or_none_of_its_rows_are_of_the_range(folder: SliceFolder) -> None:
    assert read(folder, RowLineage(inside=frozenset({SERVICE}))) == ["a", "b", "c"]
    assert read(folder, RowLineage(outside=frozenset({SERVICE}))) == []


@pytest.mark.parametrize("ancestry", [None, RowLineage()])
def test_row_without_a_known_origin_is_an_error_when_it_is_read(
    folder: SliceFolder, ancestry: RowLineage | None
) -> None:
    with pytest.raises(PositionExpired, match=r"split s1: a range over rows .* service 003 .* are gone"):
        read(folder, ancestry)
    folder.write_base([[row("d", "0", "000"), row("e", "2", "002")]])
    assert read(folder, ancestry) == ["e"]


def test_origin_without_its_originals_is_unusable(folder: SliceFolder) -> None:
    with pytest.raises(PositionExpired, match=r"split old: .* service 003"):
        read(folder, RowLineage(origins=(Origin(SERVICE, (origin(folder, whole=False),)),)))


def test_origins_of_origins(folder: SliceFolder) -> None:
    """A bucket rescale rewrote all rows; the replaced log blocks had been log-compacted before."""
    before = replace(
        origin(folder), split_id="before", base=folder.base, logs=(),
        ancestry=RowLineage(origins=(Origin(SERVICE, (origin_again(folder),)),)),
    )  # fmt: skip
    rescale = InstantTime("005")
    late = SliceFolder(folder.folder / "late", FIELDS, CommitTimeOrdering())
    late.folder.mkdir()
    late.write_base([[row(key, "?", "005") for key in "dcba"]])
    assert late.base is not None
    split = folder.split(
        split_id="late", base=replace(late.base, path=f"late/{late.base.path}"),
        ancestry=RowLineage(origins=(Origin(rescale, (before,)),)),
    )  # fmt: skip
    rows = RowsOf(ROWS.instants, ROWS.log_compactions | {rescale})
    result = folder.read(split=split, rows=rows)
    assert [key for batch in result for key in batch.batch.column("_hoodie_record_key").to_pylist()] == ["c", "b"]


def origin_again(folder: SliceFolder) -> Split:
    """`origin` as it lies there already."""
    old = folder.folder / "old"
    logs = sorted(path.name for path in old.iterdir() if path.name.startswith("."))
    (base,) = (path.name for path in old.iterdir() if not path.name.startswith("."))
    ref = {name: FileRef(f"old/{name}", (old / name).stat().st_size) for name in (*logs, base)}
    return folder.split(split_id="old", base=ref[base], logs=tuple(ref[name] for name in logs))


def test_range_that_starts_inside_an_instant_excludes_its_earlier_rows(folder: SliceFolder) -> None:
    """None of an instant's rows, or those alone whose key stands where the rest of it was written."""
    two, expected = InstantTime("002"), RowsOf(frozenset({InstantTime("001"), InstantTime("002")}))
    folder.write_base([[row("a", "1", "001"), row("b", "2", "002")], [row("c", "2", "002"), row("d", "0", "000")]])

    def keys(split: Split) -> list[str]:
        result = folder.read(split=split, rows=expected)
        return [key for batch in result for key in batch.batch.column("_hoodie_record_key").to_pylist()]

    assert keys(folder.split()) == ["a", "b", "c"]
    assert keys(folder.split(left_out=Exclusions(rows=frozenset({two})))) == ["a"]
    rest = SliceFolder(folder.folder / "rest", FIELDS, CommitTimeOrdering())
    rest.folder.mkdir()
    rest.write_base([[row("c", "2", "002"), row("x", "9", "000")]])
    assert rest.base is not None
    slices = (replace(rest.split(split_id="rest"), base=replace(rest.base, path=f"rest/{rest.base.path}")),)
    some = Exclusions(some_rows=frozenset({two}))
    assert keys(folder.split(left_out=some, ancestry=RowLineage(origins=(Origin(two, slices),)))) == ["a", "c"]
    with pytest.raises(PositionExpired, match="instant 002, inside which the range begins"):
        keys(folder.split(left_out=some, ancestry=RowLineage()))


def test_blocks_that_are_left_out_are_no_part_of_the_state(tmp_path: pathlib.Path) -> None:
    created = SliceFolder(tmp_path, FIELDS, CommitTimeOrdering())
    created.write_base([[row("a", "1", "001")]])
    created.write_log(
        slice_writer.data_block(created.avro, [row("a", "2", "002")], "002"),
        slice_writer.data_block(created.avro, [row("a", "3", "003"), row("b", "3", "003")], "003"),
    )

    def values(split: Split) -> list[str]:
        return [value for batch in created.read(split=split) for value in batch.batch.column("v").to_pylist()]

    assert values(created.split()) == ["3", "3"]
    assert values(created.split(left_out=Exclusions(blocks=frozenset({InstantTime("003")})))) == ["2"]

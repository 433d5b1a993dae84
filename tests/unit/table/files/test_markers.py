"""Markers and partition metadata: round trips, and names that a rollback must not delete."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import CorruptFile
from penstock.table.config.java_properties import parse_properties
from penstock.table.files.markers import (
    MAX_MARKER_BYTES,
    IoType,
    Marker,
    has_marker_lists,
    marker_path,
    parse_marker,
    parse_marker_list,
    partition_metadata,
)

GROUP = "8d2f6c37-7c7d-47a0-b032-54bc196b1bed-0"
T = "20260131235959123"
BASE = f"{GROUP}_0-1-2_{T}.parquet"
LOG = f".{GROUP}_{T}.log.1_0-1-2"
PARTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="/\0:\n\r"), min_size=1, max_size=12)
PARTITIONS = st.lists(PARTS.filter(lambda part: part not in (".", "..", ".hoodie")), max_size=3).map("/".join)


@given(PARTITIONS, st.sampled_from([BASE, LOG, f"{LOG}.cdc"]), st.sampled_from(IoType))
def test_marker_path_is_parsed_to_its_parts(partition: str, file_name: str, io_type: IoType) -> None:
    path = marker_path(T, partition, file_name, io_type)
    folder = f".hoodie/.temp/{T}/"
    assert path.startswith(folder)
    assert parse_marker(path) == Marker(partition, file_name, io_type)
    entry = path.removeprefix(folder)
    assert parse_marker(entry) == Marker(partition, file_name, io_type)
    assert (
        parse_marker_list("MARKERS0", f"{entry}\n\n{entry}\r\n".encode())
        == (Marker(partition, file_name, io_type),) * 2
    )


def test_marker_has_the_path_that_hudi_gives_it() -> None:
    assert marker_path(T, "p=a", BASE, IoType.CREATE) == f".hoodie/.temp/{T}/p=a/{BASE}.marker.CREATE"
    assert marker_path(T, "", BASE, "MERGE") == f".hoodie/.temp/{T}/{BASE}.marker.MERGE"


@pytest.mark.parametrize("path", ["MARKERS.type", "MARKERS0", f".hoodie/.temp/{T}/MARKERS.type", f"p=a/{BASE}", ""])
def test_other_file_is_no_marker(path: str) -> None:
    assert parse_marker(path) is None


@pytest.mark.parametrize(
    "path",
    [
        f"../{BASE}.marker.CREATE",
        f"/etc/{BASE}.marker.CREATE",
        f"p=a/../../{BASE}.marker.CREATE",
        f"s3://b/{BASE}.marker.CREATE",
        f"p=a//{BASE}.marker.CREATE",
        ".hoodie/hoodie.properties.marker.CREATE",
        f".hoodie/{BASE}.marker.CREATE",
        f"p=a/.hoodie/{BASE}.marker.CREATE",
        f".hoodie/.temp/{T}/.hoodie/metadata/files/{BASE}.marker.CREATE",
        ".hoodie_partition_metadata.marker.CREATE",
        "p=a/hoodie.properties.marker.MERGE",
        f"p=a/{BASE}.marker.DELETE",
        f"p=a/{BASE}.marker.",
        ".marker.CREATE",
    ],
)
def test_marker_of_what_a_rollback_must_not_delete_is_refused(path: str) -> None:
    with pytest.raises(CorruptFile):
        parse_marker(path)
    with pytest.raises(CorruptFile):
        parse_marker_list("MARKERS0", f"{path}\n".encode())


def test_marker_of_another_name_is_not_formed() -> None:
    with pytest.raises(CorruptFile):
        marker_path(T, "", "hoodie.properties", IoType.CREATE)
    with pytest.raises(ValueError, match="DELETE"):
        marker_path(T, "", BASE, "DELETE")


def test_incomplete_last_line_of_list_is_left_out() -> None:
    whole = f"p=a/{BASE}.marker.CREATE"
    for end in range(len(whole) + 1):
        assert parse_marker_list("MARKERS0", f"{whole}\n{whole[:end]}".encode()) == (
            Marker("p=a", BASE, IoType.CREATE),
        )
    assert parse_marker_list("MARKERS0", b"") == ()


@pytest.mark.parametrize("data", [b"\xff\n", b"p=a/file\n", b"MARKERS.type\n"])
def test_damaged_list_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptFile, match="list of markers"):
        parse_marker_list("MARKERS0", data)


def test_list_beyond_the_limit_is_refused() -> None:
    with pytest.raises(CorruptFile, match="at most"):
        parse_marker_list("MARKERS0", bytes(MAX_MARKER_BYTES + 1))


def test_marker_type_decides_where_markers_are() -> None:
    assert has_marker_lists(b"TIMELINE_SERVER_BASED\n")
    assert not has_marker_lists(b"DIRECT")
    for data in (b"", b"direct", b"TIMELINE_SERVER_BASED" + b"x" * 100):
        with pytest.raises(CorruptFile, match=r"MARKERS\.type"):
            has_marker_lists(data)


@pytest.mark.parametrize("name", ["MARKERS.type", "MARKERS", "MARKERSx", "MARKERS0.crc", ".MARKERS0.crc"])
def test_file_of_another_name_is_no_list(name: str) -> None:
    assert parse_marker_list(name, f"p=a/{BASE}.marker.CREATE\n".encode()) == ()


@pytest.mark.golden
def test_partition_metadata_has_the_entries_of_hudi(golden: Any) -> None:
    compared = 0
    for case in ("A_key_composite_v6_h0150", "A_merge_event_long_v9_h120", "A_nonpart_nometa_v9_h120"):
        table = golden.table(case)
        for file in table.rglob(".hoodie_partition_metadata"):
            if ".hoodie" in file.relative_to(table).parts:
                continue
            partition = file.parent.relative_to(table).as_posix().removeprefix(".")
            by_hudi = parse_properties(file.read_bytes())
            assert parse_properties(partition_metadata(by_hudi["commitTime"], partition)) == by_hudi
            compared += 1
    assert compared >= 4


def test_checksum_beside_marker_is_none() -> None:
    """Hadoop stores one beside each file that Hudi creates on a local file system."""
    folder = ".hoodie/.temp/20260101000000000/city=oslo"
    assert parse_marker(f"{folder}/.f1-0_1-0-0_20260101000000000.parquet.marker.CREATE.crc") is None
    assert parse_marker(f"{folder}/..f1-0_20260101000000000.log.1_1-0-0.marker.APPEND.crc") is None


def test_marker_that_a_killed_writer_was_creating_is_none() -> None:
    """Its data file was not begun. A rollback that refuses the name blocks the table."""
    path = ".hoodie/.temp/20260101000000000/city=oslo/f1-0_1-0-0_20260101000000000.parquet.marker.CREATE"
    assert parse_marker(f"{path}.0123456789ab.tmp") is None
    with pytest.raises(CorruptFile):
        parse_marker(f"{path}.0123456789ab")

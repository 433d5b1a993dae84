"""The history of layout 2: its rows and manifests, decoded again, and the form of Hudi's own files."""

from __future__ import annotations

import pathlib
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import CorruptFile
from penstock.table.hudi_table import open_table
from penstock.table.storage.filesystem import open_storage
from penstock.table.timeline import archive_v2_encoder, archive_v2_files
from penstock.table.timeline.archive_v2 import HistoryFile, history_files, parse_history_file, parse_manifest
from penstock.table.timeline.archive_v2_encoder import (
    ArchivedAction,
    encode_manifest,
    history_rows,
    merged_name,
    write_history,
)
from penstock.table.timeline.archive_v2_files import HISTORY_SCHEMA, all_rows, distinct_instants, metadata_of

TIMES = st.integers(1, 10**17).map(str)
FILES = st.builds(HistoryFile, TIMES, TIMES, st.integers(0, 9), st.integers(0, 2**40))


@given(st.lists(FILES, max_size=5, unique_by=lambda file: file.name))
def test_manifest_is_decoded(files: list[HistoryFile]) -> None:
    assert parse_manifest(encode_manifest(files), "manifest") == tuple(files)


def test_manifest_names_only_history_files() -> None:
    for data in (b'{"files":[{"fileName":"../1_2_0.parquet"}]}', b'{"files":[{"fileName":"1_2_01.parquet"}]}', b"[1]"):
        with pytest.raises(CorruptFile, match="manifest"):
            parse_manifest(data, "manifest")
    assert parse_manifest(b'{"files":[{"fileName":"1_2_0.parquet"}]}', "m") == (HistoryFile("1", "2", 0, -1),)
    assert parse_history_file("manifest_1") is None


def test_files_are_merged_into_the_next_layer() -> None:
    files = [HistoryFile("3", "9", 1, 5), HistoryFile("1", "4", 1, 5)]
    assert merged_name(files) == "1_9_2.parquet"


def actions_of(table: Any) -> list[ArchivedAction]:
    """The rows of a golden table's history."""
    opened = open_table(str(table))
    return [
        ArchivedAction(
            requested_time=row["instantTime"],
            completion_time=row["completionTime"],
            action=row["action"],
            metadata=row["metadata"] or b"",
            plan=row["plan"] or b"",
        )
        for file in history_files(opened.storage, opened.properties)
        for batch in all_rows(opened.storage, f"{opened.properties.history_folder}/{file.name}", "history")
        for row in batch.to_pylist()
    ]


@pytest.mark.golden
def test_rows_and_form_are_those_of_hudi(golden: Any, tmp_path: pathlib.Path) -> None:
    table = golden.table("B_v9_arch_mor")
    actions = actions_of(table)
    assert len(actions) > 5 and any(item.plan for item in actions)
    with (tmp_path / "1_2_0.parquet").open("wb") as file:
        write_history(file, [history_rows(actions[:2]), history_rows(actions[2:])])
    hudis = pq.ParquetFile(next(iter((table / ".hoodie/timeline/history").glob("*.parquet"))))
    mine = pq.ParquetFile(tmp_path / "1_2_0.parquet")
    assert mine.schema_arrow.remove_metadata() == hudis.schema_arrow.remove_metadata() == HISTORY_SCHEMA
    for key in (b"writer.model.name", b"parquet.avro.schema"):
        assert mine.metadata.metadata[key].replace(b" ", b"") == hudis.metadata.metadata[key].replace(b" ", b"")
    storage = open_storage(str(tmp_path))
    instants = distinct_instants(storage, "1_2_0.parquet", {item.action for item in actions}, "history")
    assert instants.column("instantTime").to_pylist() == [item.requested_time for item in actions]
    bodies = list(metadata_of(storage, "1_2_0.parquet", instants.column("row").to_numpy(), "history"))
    assert bodies == [item.metadata for item in actions]
    again = list(all_rows(storage, "1_2_0.parquet", "history"))
    assert pa.Table.from_batches(again) == pa.Table.from_batches([history_rows(actions)])


def test_rows_that_repeat_a_large_value_come_in_small_batches(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small file can hold many rows of one dictionary value."""
    monkeypatch.setattr(archive_v2_files, "_READ_BYTES", 2_500)
    action = ArchivedAction(requested_time="1", completion_time="2", action="commit", metadata=b"m" * 1000, plan=b"")
    with (tmp_path / "1_1_0.parquet").open("wb") as file:
        write_history(file, [history_rows([action] * 7)])
    batches = list(all_rows(open_storage(str(tmp_path)), "1_1_0.parquet", "history"))
    assert [batch.num_rows for batch in batches] == [2, 2, 2, 1]
    assert [row["metadata"] for batch in batches for row in batch.to_pylist()] == [action.metadata] * 7


@pytest.mark.parametrize(("most_bytes", "row_groups"), [(1 << 20, [7]), (1, [2, 2, 2, 1]), (2_500, [4, 3])])
def test_small_batches_become_one_row_group(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, most_bytes: int, row_groups: list[int]
) -> None:
    monkeypatch.setattr(archive_v2_encoder, "ROW_GROUP_BYTES", most_bytes)
    actions = [
        ArchivedAction(requested_time=f"{n}", completion_time=f"1{n}", action="commit", metadata=b"m" * 1000, plan=b"")
        for n in range(7)
    ]
    path = tmp_path / "1_1_0.parquet"
    with path.open("wb") as file:
        write_history(file, (history_rows(actions[n : n + 2]) for n in range(0, 7, 2)))
    footer = pq.ParquetFile(path).metadata
    assert [footer.row_group(n).num_rows for n in range(footer.num_row_groups)] == row_groups
    assert pq.read_table(path).to_pylist() == history_rows(actions).to_pylist()

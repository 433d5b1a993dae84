"""Archive files of layout 1: the entries of state files, decoded again, and the fields of Hudi's own entries."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.proto.errors import CorruptFile
from penstock.table.hudi_table import open_table
from penstock.table.log.blocks import SchemaBlock, read_schema_blocks
from penstock.table.timeline.archive import archive_number, archived_in
from penstock.table.timeline.archive_v1 import archive_entries
from penstock.table.timeline.archive_v1_encoder import ENTRIES_OF_BLOCK, StateFile, encode_archive
from penstock.table.timeline.commits import commit_of, parse_commit
from penstock.table.timeline.instants import Action, Instant, parse_instant_file
from penstock.table.timeline.metadata_schemas.archives import ARCHIVED_ENTRY
from penstock.table.timeline.services.plans import clean_of, parse_clean, parse_rollback, rollback_of

pytestmark = pytest.mark.golden
CHANGED = "20260131235959999"


def state_files(table: Any) -> list[StateFile]:
    """The state files of a golden table's active timeline."""
    files = []
    for path in sorted((table / ".hoodie").iterdir()):
        instant = parse_instant_file(path.name, 1) if path.is_file() else None
        if instant is not None and instant.action is not Action.SAVEPOINT:
            files.append(StateFile(instant, path.read_bytes(), CHANGED))
    return files


def decoded(fields: Any, instant: Instant) -> Any:
    match instant.action:
        case Action.CLEAN:
            return clean_of(fields.within("hoodieCleanMetadata", "e"))
        case Action.ROLLBACK:
            return rollback_of(fields.within("hoodieRollbackMetadata", "e"), instant.action)
        case Action.REPLACE_COMMIT:
            return commit_of(fields.within("hoodieReplaceCommitMetadata", "e"), instant)
    return commit_of(fields.within("hoodieCommitMetadata", "e"), instant)


def parsed(file: StateFile) -> Any:
    match file.instant.action:
        case Action.CLEAN:
            return parse_clean(file.data, file.instant)
        case Action.ROLLBACK:
            return parse_rollback(file.data, file.instant)
    return parse_commit(file.data, file.instant)


@pytest.mark.parametrize(
    "case", ["B_v6_arch_mor", "A_rollback_log_v6_h0150", "A_replace_ops_v6_h0150", "A_clustering_done_v6_h0150"]
)
def test_entries_are_those_of_the_state_files(golden: Any, case: str) -> None:
    files = state_files(golden.table(case))
    entries = list(archive_entries(encode_archive(files), "archive"))
    assert [(e.requested_time, e.action, e.state, e.transition) for e in entries] == [
        (file.instant.requested_time, file.instant.action, file.instant.state.upper(), CHANGED) for file in files
    ]
    completed = [(entry, file) for entry, file in zip(entries, files, strict=True) if file.instant.is_completed]
    assert completed
    for entry, file in completed:
        assert decoded(entry.fields, file.instant) == parsed(file)


def test_schema_has_the_fields_of_hudi_in_their_order(golden: Any) -> None:
    """Hudi 1.2.0 has more fields than 0.15.0, which wrote the golden archive."""
    archive = min((golden.table("B_v6_arch_mor") / ".hoodie/archived").glob(".commits_.archive.*_1-0-1"))
    block = next(iter(read_schema_blocks(memoryview(archive.read_bytes()), "archive")))
    assert isinstance(block, SchemaBlock)
    differences(json.loads(block.schema_json), ARCHIVED_ENTRY, "")


def differences(hudis: Any, ours: Any, where: str) -> None:
    """AssertionError if ours lacks something, or has fields in another order."""
    if isinstance(hudis, dict):
        assert isinstance(ours, dict), where
        for key, value in hudis.items():
            if key == "fields":
                names = [item["name"] for item in value]
                assert [item["name"] for item in ours["fields"] if item["name"] in names] == names, where
                mine = {item["name"]: item for item in ours["fields"]}
                for item in value:
                    differences(item, mine[item["name"]], f"{where}.{item['name']}")
            elif key != "doc":
                differences(value, ours[key], f"{where}.{key}")
    elif isinstance(hudis, list):
        assert len(hudis) == len(ours), where
        for one, other in zip(hudis, ours, strict=True):
            differences(one, other, where)
    else:
        assert hudis == ours, where


def test_entries_of_hudi_are_encoded_with_the_same_values(golden: Any) -> None:
    """What Hudi archived of a clean and of a commit: the same fields from our encoder, of the decoded entry."""
    files = state_files(golden.table("B_v6_arch_mor"))
    own = {(e.action, e.state): e for e in archive_entries(encode_archive(files), "archive")}
    seen = 0
    for path in (golden.table("B_v6_arch_mor") / ".hoodie/archived").glob(".commits_.archive.*_1-0-1"):
        for entry in archive_entries(path.read_bytes(), "archive"):
            mine = own.get((entry.action, entry.state))
            if mine is None:
                continue
            names = {name for name, value in entry.fields.values.items() if value is not None}
            ours = {name for name, value in mine.fields.values.items() if value is not None}
            if entry.state != "REQUESTED":  # 0.15.0 has empty metadata of empty files, 1.2.0 has none
                assert ours == names, (entry.action, entry.state)
                seen += 1
    assert seen > 5


def test_blocks_have_as_many_entries_as_hudis(golden: Any) -> None:
    (file, *_) = state_files(golden.table("B_v6_arch_mor"))
    data = encode_archive([file] * (ENTRIES_OF_BLOCK + 1))
    assert len(list(read_schema_blocks(memoryview(data), "archive"))) == 2
    assert encode_archive([]) == b""


def test_damaged_file_is_not_archived(golden: Any) -> None:
    files = [file for file in state_files(golden.table("B_v6_arch_mor")) if file.instant.is_completed]
    with pytest.raises(CorruptFile):
        encode_archive([StateFile(files[0].instant, files[0].data[:-9], CHANGED)])
    empty = StateFile(files[0].instant, b"", CHANGED)
    (entry,) = archive_entries(encode_archive([empty]), "archive")
    assert entry.fields.values["hoodieCommitMetadata"] is None


def test_instants_of_hudis_archive_file(golden: Any) -> None:
    table = open_table(str(golden.table("B_v6_arch_mor")))
    found = archived_in(table.storage, table.properties, ".commits_.archive.2_1-0-1")
    assert {action for _, action in found} == {"deltacommit", "commit"}
    assert archive_number(".commits_.archive.12_1-0-1") == 12
    assert archive_number("mergeArchivePlan") is None

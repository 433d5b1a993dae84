"""What left the active timeline, from both layouts: completed writes and cleans, each once, files read once."""

from __future__ import annotations

import io
import json
import pathlib
import shutil
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.proto.errors import ConfigurationError, CorruptFile
from penstock.table.config.properties import load_properties
from penstock.table.hudi_table import open_table
from penstock.table.storage.filesystem import open_storage
from penstock.table.timeline import archive as archive_module
from penstock.table.timeline import archive_v1
from penstock.table.timeline.archive import Archive, ArchiveCache, ArchivedInstant, read_archive
from penstock.table.timeline.commit_cache import FileIdentity
from penstock.table.timeline.instants import Action, Instant, State
from penstock.table.timeline.services.plans import CleanMetadata

pytestmark = pytest.mark.golden


def read(path: pathlib.Path, cache: ArchiveCache | None = None) -> Archive:
    storage = open_storage(str(path))
    return read_archive(storage, load_properties(storage), cache or ArchiveCache())


def written(golden: Any, case: str) -> set[str]:
    """Requested times of data instants, as the generator noted them down."""
    note = next(note for note in golden.case(case)["notes"] if note.startswith("all data instants"))
    return {requested for requested, *_ in json.loads(note.partition(": ")[2])}


@pytest.mark.parametrize("case", ["B_v6_arch_mor", "B_v8_arch_mor", "B_v9_arch_cow", "B_v9_arch_mor"])
def test_archive_and_active_timeline_make_up_the_history(golden: Any, case: str) -> None:
    table = open_table(str(golden.table(case)))
    active = {item.requested_time for item in table.timeline().completed_writes}
    result = table.archive()
    assert result.commits.keys() | active == written(golden, case)
    assert not result.commits.keys() & active
    assert len(result.cleans) >= 3 and all(clean.partitions for _, clean in result.cleans)
    assert [item.requested_time for item in result.instants] == sorted(item.requested_time for item in result.instants)
    assert {item.action for item in result.instants} <= {
        Action.COMMIT,
        Action.DELTA_COMMIT,
        Action.REPLACE_COMMIT,
        Action.CLEAN,
    }
    assert all((item.completion_time is None) == case.startswith("B_v6") for item in result.instants)
    services = [commit for commit in result.commits.values() if commit.is_service]
    assert services or case.endswith("cow")
    assert any(commit.replaced for commit in result.commits.values())
    assert all(commit.stats and commit.schema_json for commit in result.commits.values())


def test_only_files_of_the_manifest_count(golden: Any, tmp_path: pathlib.Path) -> None:
    folder = golden.copy("B_v9_arch_mor", tmp_path)
    whole = read(folder)
    for name in ("20261120213645782_20261120213647092_0", "20261120213653652_20261120213654965_0"):
        (folder / f".hoodie/timeline/history/{name}.parquet").write_bytes(b"no Parquet")
    assert read(folder) == whole
    (folder / ".hoodie/timeline/history/20261120213612473_20261120213640535_1.parquet").unlink()
    with pytest.raises(CorruptFile, match=r"20261120213612473_20261120213640535_1\.parquet.*missing"):
        read(folder)


def test_archived_rollback_tells_what_it_took_back(golden: Any, tmp_path: pathlib.Path) -> None:
    """Hudi `HoodieRollbackMetadata`: the instants it undid are in no timeline, and are not lost."""
    folder = golden.copy("B_v9_arch_mor", tmp_path)
    before = read(folder)
    file = folder / ".hoodie/timeline/history/20261120213612473_20261120213640535_1.parquet"
    table, out = pq.read_table(file), io.BytesIO()
    texts = {"type": "array", "items": "string"}
    fields = [{"name": "startRollbackTime", "type": "string"}, {"name": "commitsRollback", "type": texts}]
    schema = {"type": "record", "name": "HoodieRollbackMetadata", "fields": fields}
    fastavro.writer(out, schema, [{"startRollbackTime": "20261120213612475", "commitsRollback": ["20261120213612474"]}])
    row = {"instantTime": "20261120213612475", "completionTime": "20261120213612476", "action": "rollback"}
    row |= {"metadata": out.getvalue(), "plan": None, "version": 1}
    pq.write_table(pa.concat_tables([table, pa.Table.from_pylist([row], table.schema)]), file)
    after = read(folder)
    assert after.rolled_back == {"20261120213612474"} and not before.rolled_back
    assert after.instants == before.instants


def test_damaged_history_file_is_named(golden: Any, tmp_path: pathlib.Path) -> None:
    folder = golden.copy("B_v9_arch_mor", tmp_path)
    file = folder / ".hoodie/timeline/history/20261120213612473_20261120213640535_1.parquet"
    table = pq.read_table(file)
    pq.write_table(table.drop_columns(["metadata"]), file)
    with pytest.raises(CorruptFile, match=r"_1\.parquet.*cannot be read as a history file"):
        read(folder)
    bodies = pa.array([b"Obj\x01junk", *table["metadata"].to_pylist()[1:]])
    pq.write_table(table.set_column(table.column_names.index("metadata"), "metadata", bodies), file)
    with pytest.raises(CorruptFile, match=r"deltacommit 20261120213612473, file .*_1\.parquet"):
        read(folder)


def test_half_written_merge_of_archive_files_is_passed_over(golden: Any, tmp_path: pathlib.Path) -> None:
    """Hudi `mergeArchivePlan`: the merged files stay until the new one is whole."""
    folder = golden.copy("B_v6_arch_mor", tmp_path) / ".hoodie/archived"
    table = folder.parent.parent
    whole = read(table)
    merged = folder / ".commits_.archive.7_1-0-1"
    merged.write_bytes((folder / ".commits_.archive.1_1-0-1").read_bytes()[:-7])
    with pytest.raises(CorruptFile, match=r"archive\.7_1-0-1 of table .* is damaged or truncated"):
        read(table)
    (folder / "mergeArchivePlan").write_bytes(b"")
    with pytest.raises(CorruptFile, match=r"archive\.7_1-0-1"):
        read(table)
    schema = {"type": "record", "name": "HoodieMergeArchiveFilePlan", "fields": [
        {"name": "candidate", "type": {"type": "array", "items": "string"}},
        {"name": "mergedArchiveFileName", "type": "string"},
    ]}  # fmt: skip
    with (folder / "mergeArchivePlan").open("wb") as out:
        fastavro.writer(out, schema, [{"candidate": ["a"], "mergedArchiveFileName": merged.name}])
    assert read(table) == whole
    merged.write_bytes(b"".join(file.read_bytes() for file in sorted(folder.glob(".commits_.archive.[1-6]_*"))))
    assert read(table) == whole, "a whole one beside the merged files doubles nothing"


def test_file_is_read_once_until_it_changes(
    golden: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = golden.copy("B_v6_arch_mor", tmp_path)
    files_read: list[str] = []
    inner = archive_v1.archive_entries
    monkeypatch.setattr(
        archive_v1, "archive_entries", lambda data, where: files_read.append(where) or inner(data, where)
    )
    cache = ArchiveCache()
    first = read(folder, cache)
    assert len(files_read) == 6
    assert read(folder, cache) == first and len(files_read) == 6
    shutil.copy(
        folder / ".hoodie/archived/.commits_.archive.1_1-0-1", folder / ".hoodie/archived/.commits_.archive.8_1-0-1"
    )
    assert read(folder, cache) == first and len(files_read) == 7


def test_archive_of_before_an_upgrade_counts_where_the_history_does_not_tell(
    golden: Any, tmp_path: pathlib.Path
) -> None:
    folder = golden.copy("B_v9_arch_mor", tmp_path)
    whole = read(folder)
    old = golden.table("B_v6_arch_mor") / ".hoodie/archived"
    shutil.copytree(old, folder / ".hoodie/archived")
    both = read(folder)
    assert set(whole.instants) < set(both.instants)
    older = next(item for item in both.instants if item.requested_time == "20261120215036773")
    assert older.completion_time == "20261120215037717", "when its completed file appeared"
    shutil.rmtree(folder / ".hoodie/timeline/history")
    table = open_table(str(folder))
    assert table.has_archived() and not table.has_history()
    assert table.archive().commits.keys() == read(golden.table("B_v6_arch_mor")).commits.keys()


def test_more_than_is_held_is_refused(golden: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "MAX_ARCHIVED", 20)
    with pytest.raises(ConfigurationError, match="archived timeline of more than 20"):
        read(golden.table("B_v6_arch_mor"))


def test_cache_is_bounded() -> None:
    def clean(number: int) -> tuple[ArchivedInstant, ...]:
        instant = Instant(
            requested_time=str(number), completion_time=None, action=Action.CLEAN, state=State.COMPLETED, file_name="f"
        )  # type: ignore[arg-type]
        return (ArchivedInstant(instant, CleanMetadata("", "", ())),)

    cache = ArchiveCache(max_weight=2)
    keys = [FileIdentity(str(number), 1, 1) for number in range(3)]
    for number, key in enumerate(keys):
        cache.put(key, clean(number))
        cache.get(keys[0])
    assert [cache.get(key) is not None for key in keys] == [True, False, True]
    cache.put(FileIdentity("big", 1, 1), clean(1) * 3)
    assert cache.get(FileIdentity("big", 1, 1)) is None

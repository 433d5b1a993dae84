"""Maintenance by Penstock: Hudi reads a table that nobody else keeps, and goes on with it; a held group reads all that
Hudi wrote after cleans that keep one commit."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from penstock.engine.consumer import Consumer
from penstock.engine.table_services.holding.savepoints import savepoint_readers
from penstock.engine.table_services.maintain import maintain
from penstock.engine.write.create import create_table
from penstock.enumerator.server.run import serve_enumerator
from penstock.enumerator.service import EnumeratorService
from penstock.proto.errors import CorruptFile, PositionExpired
from penstock.table.hudi_table import open_table
from tests.interop.hudi_options import COMPACTS
from tests.interop.test_clean_and_archive import HUDI_ARCHIVES, HUDI_CLEANS, Lake, lake_of
from tests.interop.test_writes import SCHEMA

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

CASES = [(9, "merge_on_read"), (6, "copy_on_write")]
OTHERS = [(9, "copy_on_write"), (6, "merge_on_read")]
POLICY: dict[str, Any] = {"compact_after": 3, "commits": 3, "keep_min": 5, "keep_max": 6}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("version", "kind"), [*CASES, *(pytest.param(*case, marks=pytest.mark.long) for case in OTHERS)]
)
def test_hudi_reads_a_maintained_table_and_goes_on(hudi: Any, tmp_path: pathlib.Path, version: int, kind: str) -> None:
    lake = lake_of(hudi, tmp_path, version, kind)
    path, done = str(lake.path), {"compact": 0, "clean": 0, "archive": 0}
    for number in range(15):
        lake.penstock_writes(operation="insert_overwrite" if number == 6 else "upsert")
        result = maintain(path, **POLICY)
        done["compact"] += len(result.compactions or ())
        done["clean"] += result.clean is not None
        done["archive"] += result.archive is not None
        if number % 5 == 4:
            lake.check(f"maintenance after write {number}", as_of=tuple(sorted(lake.states)[-2:]))
    assert done["clean"] >= 3 and done["archive"] >= 2 and (done["compact"] >= 4) is (kind == "merge_on_read"), done
    files = [
        file for partition in open_table(path).list_partitions() for file in open_table(path).list_partition(partition)
    ]
    assert len(files) <= 3 * 3 * 3, "three cities, three states, a base file and its logs"
    assert len(open_table(path).timeline().completed_writes) <= 9
    compacts = [COMPACTS] if kind == "merge_on_read" else []
    completed = lake.hudi_writes(HUDI_CLEANS, HUDI_ARCHIVES, *compacts)
    assert any(item[2] == "clean" for item in completed)
    lake.check("Hudi's write, clean and archival")
    lake.penstock_writes()
    lake.hudi_writes(*compacts)
    maintain(path, **POLICY)
    lake.check("maintenance after Hudi's writes")


def test_held_group_reads_all_that_hudi_wrote(hudi: Any, tmp_path: pathlib.Path) -> None:
    lake = Lake(hudi, tmp_path / "trip", 9, "copy_on_write")
    path = str(lake.path)
    settings: dict[str, Any] = {"record_key": "id", "partition_by": "city", "ordering": "seq", "buckets": 1}
    create_table(
        path, SCHEMA, **settings, table_type="copy_on_write", table_version=9, change_logging="data_before_after"
    )
    lake.penstock_writes()
    service = EnumeratorService({"trip": path}, poll_ms=None)
    server = serve_enumerator(service, "127.0.0.1:0", service)
    try:
        names = ("held", "other")
        first = [read_changes(service, name, 6) for name in names]
        assert first[0] == first[1] and len(first[0]) == 6
        expected: list[tuple[str, int]] = []
        for _ in range(4):
            lake.hudi_writes()
            expected += [(row[0], row[1]) for row in lake.states[max(lake.states)]]
        hold = {"hold_for": ["held"], "hold_at_most": "48h", "server": server.address}
        options: dict[str, Any] = {"commits": 1, "keep_min": 2, "keep_max": 3}
        result = maintain(path, **options, **hold)
        assert [(one.name, one.state, one.unread_commits) for one in result.holds] == [("held", "holds", 4)]
        lake.check("a held clean")
        assert read_changes(service, "held", len(expected)) == sorted(expected)
        assert maintain(path, **options, **hold).clean is not None
        lake.check("a clean after the group has read everything")
        with pytest.raises((PositionExpired, CorruptFile), match=r"gone|cleaned|removed"):
            read_changes(service, "other", len(expected))
        assert any(item[2] == "clean" for item in lake.hudi_writes(HUDI_CLEANS))
        lake.check("Hudi's clean")
    finally:
        server.stop()


def read_changes(service: EnumeratorService, group: str, count: int) -> list[tuple[str, int]]:
    """The next so many changes of the group: id and seq of the rows after them, sorted."""
    changes: list[tuple[str, int]] = []
    options: dict[str, Any] = {"query": "cdc", "cdc_format": "hudi", "max_commits_per_trigger": 1}
    with Consumer(None, "trip", group=group, reader_id="r", enumerator=service, **options) as reader:
        for _ in range(200):
            service.split_discovery.discover()
            consumed = reader.poll(0)
            if consumed is not None:
                rows = (json.loads(after) for after in consumed.batch["after"].to_pylist())
                changes += [(row["id"], row["seq"]) for row in rows]
                reader.commit(consumed)
            elif len(changes) >= count:
                break
    return sorted(changes)


@pytest.mark.long
def test_savepoints_for_a_reader_hold_hudis_cleaner(hudi: Any, tmp_path: pathlib.Path) -> None:
    """The table has a metadata table, as Hudi creates it by default."""
    lake, indexed = Lake(hudi, tmp_path / "trip", 9, "copy_on_write"), {"hoodie.metadata.enable": "true"}
    path = str(lake.path)
    settings: dict[str, Any] = {"record_key": "id", "partition_by": "city", "ordering": "seq", "buckets": 1}
    create_table(
        path, SCHEMA, **settings, table_type="copy_on_write", table_version=9, change_logging="data_before_after"
    )
    lake.penstock_writes()
    lake.penstock_writes()
    service = EnumeratorService({"trip": path}, poll_ms=None)
    server = serve_enumerator(service, "127.0.0.1:0", service)
    try:
        assert all(len(read_changes(service, name, 12)) == 12 for name in ("held", "other"))
        expected: list[tuple[str, int]] = []
        hold: dict[str, Any] = {"hold_for": ["held"], "hold_at_most": "48h", "server": server.address}
        for _ in range(3):
            lake.hudi_writes(indexed)
            expected += [(row[0], row[1]) for row in lake.states[max(lake.states)]]
            savepoint_readers(path, **hold)
        assert (lake.path / ".hoodie" / "metadata").is_dir()
        assert any(item[2] == "clean" for item in lake.hudi_writes(indexed, HUDI_CLEANS))
        expected += [(row[0], row[1]) for row in lake.states[max(lake.states)]]
        assert len(open_table(path).timeline().savepoints) == 4
        lake.check("Hudi's write beside savepoints")
        assert read_changes(service, "held", len(expected)) == sorted(expected)
        assert len(savepoint_readers(path, **hold).deleted) == 4
        assert any(item[2] == "clean" for item in lake.hudi_writes(indexed, HUDI_CLEANS))
        lake.check("Hudi's clean without savepoints")
        with pytest.raises((PositionExpired, CorruptFile), match=r"gone|cleaned|removed"):
            read_changes(service, "other", len(expected))
    finally:
        server.stop()

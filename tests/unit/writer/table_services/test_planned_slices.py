"""Slices of a plan: their files in scan order, and the refusal of plans that name other files."""

from __future__ import annotations

import pytest

from penstock.proto.errors import CorruptFile
from penstock.proto.model.files import FileRef
from penstock.table.timeline.services.plans import ClusteringSlice, CompactionGroup
from penstock.writer.table_services.planned_slices import planned_paths, planned_slice

BASE = "f-0_0-1-2_100.parquet"
LOGS = (".f-0_110.log.10_0-1-2", ".f-0_110.log.9_0-1-2", ".f-0_105.log.1_0-1-2")


def test_logs_are_in_scan_order() -> None:
    planned = CompactionGroup("p", "f-0", "100", BASE, LOGS)
    paths = planned_paths(planned, "plan")
    assert paths == (f"p/{BASE}", f"p/{LOGS[2]}", f"p/{LOGS[1]}", f"p/{LOGS[0]}")
    item = planned_slice(planned, {path: FileRef(path, place) for place, path in enumerate(paths)}, "plan")
    assert item.base == FileRef(paths[0], 0) and (item.base_instant, item.key) == ("100", "100")
    assert item.logs == tuple(FileRef(path, place) for place, path in enumerate(paths) if place)
    assert (item.base_name, item.log_names) == (BASE, (LOGS[2], LOGS[1], LOGS[0]))


def test_slice_of_logs_has_the_key_of_the_first() -> None:
    planned = ClusteringSlice("", "f-0", "", LOGS)
    item = planned_slice(planned, {path: FileRef(path, 1) for path in planned_paths(planned, "plan")}, "plan")
    assert item.base is None and (item.base_instant, item.key) == ("", "105")


@pytest.mark.parametrize(
    ("partition", "base", "logs"),
    [
        ("p", "", ()),
        ("p", LOGS[0], ()),
        ("p", BASE, (BASE,)),
        ("p", "other_0-1-2_100.parquet", ()),
        ("p", "", (".other_110.log.1_0-1-2",)),
        ("p", BASE, (f"{LOGS[0]}.cdc",)),
        ("p", "hoodie.properties", ()),
        (".hoodie", BASE, ()),
        ("p/.hoodie/x", BASE, ()),
    ],
)
def test_files_of_other_groups_are_refused(partition: str, base: str, logs: tuple[str, ...]) -> None:
    with pytest.raises(CorruptFile, match=r"^plan: .*(damaged|metadata folder)"):
        planned_paths(CompactionGroup(partition, "f-0", "100", base, logs), "plan")

"""Golden tables as they were before Hudi's last clean: Penstock plans the same clean, and Hudi's plan deletes nothing
that is still needed."""

from __future__ import annotations

import pathlib
import shutil
from dataclasses import replace
from datetime import UTC

import pytest

from penstock.engine.table_services.cleaning import clean_executor
from penstock.engine.table_services.cleaning.clean_executor import carry_out
from penstock.engine.table_services.cleaning.clean_inputs import cleaning_facts
from penstock.engine.table_services.serviced_table import ServicedTable
from penstock.table.config.properties import load_properties
from penstock.table.files.names import parse_file_name
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.storage.local_writes import open_writable
from penstock.table.timeline.instants import parse_instant_file
from penstock.table.timeline.services.clean_encoder import CleanPlan
from penstock.writer.metadata_table.partitions import drop_metadata_table
from penstock.writer.table_services.cleaning import needed_files
from penstock.writer.table_services.retention import KeepCommits, Retention
from penstock.writer.transaction.transaction import WriteEnvironment
from tests.golden_tables import GoldenTables

TABLES = (
    "A_archive_v6_h0150",
    "A_archive_v8_h102",
    "A_archive_v9_h120",
    "A_compaction_then_updates_v9_h120",
    "A_log_compaction_v6_h0150",
    "A_log_compaction_v8_h102",
    "A_log_compaction_v9_h120",
    "A_mdt_all_v9_h120",
    "B_up_cow_cdc_v6",
    "B_up_cow_cdc_v8",
    "B_up_cow_cdc_v9",
    "B_up_mor_v8",
    "B_up_mor_v9",
    "B_v6_arch_mor",
    "B_v6_timeline_mor",
    "B_v8_arch_mor",
    "B_v9_arch_cow",
    "B_v9_arch_mor",
    "B_v9_timeline_mor",
    "D_changelog_archived_v9",
    "D_changelog_cleaned_v9",
)
"""Those with a clean that completed."""


def before_clean(table: pathlib.Path) -> tuple[CleanPlan, HudiTable]:
    """Hudi's plan of the last clean, and the table with the deleted files, empty, and without what came after."""
    opened = open_table(str(table))
    last = opened.timeline().completed_cleans[-1]
    plan = opened.clean_plan(last)
    instant = last.requested_time
    for partition, names in plan.files.items():
        (table / partition).mkdir(parents=True, exist_ok=True)
        for name in names:
            (table / partition / name).write_bytes(b"")
    later = [
        path
        for path in table.rglob("*")
        if ".hoodie" not in path.parts and (name := parse_file_name(path.name)) and name.instant > instant
    ]
    for path in later:
        path.unlink()
    for folder in {path.parent for path in later}:
        if not any(parse_file_name(path.name) for path in folder.iterdir()):
            shutil.rmtree(folder)
    for path in (table / opened.properties.timeline_folder).iterdir():
        item = parse_instant_file(path.name, opened.properties.layout, "0") if path.is_file() else None
        if item and (item.requested_time >= instant or (item.completion_time or "") > instant):
            path.unlink()
    storage = open_writable(str(table))
    return plan, HudiTable(storage, load_properties(storage)).pinned()


@pytest.mark.parametrize("name", TABLES)
def test_plan_is_that_of_hudi(
    golden: GoldenTables, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    plan, table = before_clean(golden.copy(name, tmp_path))
    earliest = table.timeline().completed_write(plan.earliest)
    assert earliest is not None
    monkeypatch.setattr(clean_executor, "retention", lambda *_, **__: Retention(earliest, plan.earliest))
    serviced = ServicedTable(
        table=table, storage=open_writable(table.base_path), environment=WriteEnvironment(zone=UTC)
    )
    mine = clean_executor.plan_clean(table, serviced, KeepCommits(1), None)
    assert mine is not None
    assert {key: sorted(names) for key, names in mine.files.items()} == {
        key: sorted(names) for key, names in plan.files.items()
    }
    assert (mine.policy, mine.earliest, mine.earliest_action, mine.last_completed, mine.extra, mine.partitions) == (
        plan.policy,
        plan.earliest,
        plan.earliest_action,
        plan.last_completed,
        plan.extra,
        plan.partitions,
    )
    facts = cleaning_facts(table)
    for partition, names in plan.files.items():
        needed = needed_files(table.list_partition(partition), facts)
        assert needed and not {*names} & {*needed}
    check_carried_out(golden.table(name), serviced, plan)


def check_carried_out(hudis: pathlib.Path, serviced: ServicedTable, plan: CleanPlan) -> None:
    """Hudi's plan, as if Hudi had been killed after it: the files go, and the metadata is that of Hudi's own clean."""
    if serviced.table.properties.layout == 1:  # its metadata table is not kept current
        drop_metadata_table(serviced.storage, serviced.table.properties, "layout 1")
        serviced = replace(serviced, table=serviced.table.refreshed())
    opened = open_table(str(hudis))
    done = opened.timeline().completed_cleans[-1]
    base = pathlib.Path(serviced.storage.base_path)
    folder = base / opened.properties.timeline_folder
    requested = f"{done.requested_time}.clean.requested"
    shutil.copy(hudis / opened.properties.timeline_folder / requested, folder)
    instant = parse_instant_file(requested, opened.properties.layout)
    assert instant is not None
    carry_out(serviced, instant, None)
    assert not [name for partition, names in plan.files.items() for name in names if (base / partition / name).exists()]
    table = open_table(serviced.storage.base_path)
    (completed,) = [item for item in table.timeline().completed_cleans if item.requested_time == done.requested_time]
    assert table.clean(completed) == opened.clean(done)

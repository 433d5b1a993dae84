"""Synthetic tables and states for `service.py`, without rows; written once and cached."""

from __future__ import annotations

import hashlib
import pathlib
import shutil
from collections.abc import Iterator
from typing import Final

from penstock.enumerator.clocks import monotonic_ms
from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.coordinator.coordinator import durable_coordinator
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.group_lifecycle import round_id
from penstock.enumerator.core.records import GroupKey, PlanQuery, QueryKind
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.core.split_facts import facts_of, sizes_alone
from penstock.enumerator.store.journal import Journal
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.enumerator.store.sqlite.row_format import FORMAT_VERSION
from penstock.proto.model.groups import GroupScope
from penstock.proto.model.positions import EARLIEST, CommitRange, InstantTime, Position
from penstock.proto.model.queries import NO_LIMITS, Incremental, PlanRequest
from penstock.proto.model.splits import CommitTimeOrdering, FileRef, Plan, Scan, Split, VisibleInstants

TABLE: Final = "t"
GROUP: Final = "g"
PLAN: Final = "p0000"
FIRST_INSTANT: Final = 20260101000000000
SLOTS: Final = 64
_SCHEMA: Final = '{"type":"record","name":"r","fields":[{"name":"id","type":["null","string"]}]}'
_COMMIT: Final = '{"partitionToWriteStats":{},"operationType":"UPSERT","extraMetadata":{"schema":%s}}'


def make_table(folder: pathlib.Path, instants: int, files: int) -> pathlib.Path:
    """Writes a table of `instants` small commits and `files` empty data files, 1,000 per partition."""
    if (folder / "ready").exists():
        return folder / "table"
    shutil.rmtree(folder, ignore_errors=True)
    table = folder / "table"
    timeline = table / ".hoodie" / "timeline"
    timeline.mkdir(parents=True)
    (table / ".hoodie" / "hoodie.properties").write_text(
        "hoodie.table.name=many\nhoodie.table.type=MERGE_ON_READ\nhoodie.table.version=9\n"
        "hoodie.timeline.layout.version=2\nhoodie.timeline.path=timeline\nhoodie.table.recordkey.fields=id\n"
        "hoodie.table.timeline.timezone=UTC\nhoodie.record.merge.mode=COMMIT_TIME_ORDERING\n"
    )
    commit = _COMMIT % ('"' + _SCHEMA.replace('"', '\\"') + '"')
    for number in range(instants):
        instant = FIRST_INSTANT + number * 10
        for name in (f"{instant}.deltacommit.requested", f"{instant}.deltacommit.inflight"):
            (timeline / name).touch()
        (timeline / f"{instant}_{instant + 5}.deltacommit").write_text(commit)
    for number in range(files):
        partition = table / f"p={number // 1000:04d}"
        if number % 1000 == 0:
            partition.mkdir()
            (partition / ".hoodie_partition_metadata").touch()
        (partition / f"{number:032x}-0_0-1-1_{FIRST_INSTANT}.parquet").touch()
    (folder / "ready").touch()
    return table


def scope() -> GroupScope:
    """The scope of the group."""
    return GroupScope(request=PlanRequest(table=TABLE, query=Incremental()))


def make_state(cache: pathlib.Path, splits: int) -> pathlib.Path:
    """Writes a state directory: a group with one round of `splits` splits and, up to 200,000, a plan of the plan API
    with as many."""
    source_digest = hashlib.sha256(repr((FORMAT_VERSION, scope())).encode()).hexdigest()[:10]
    folder = cache / f"service-state-{splits}-{source_digest}"
    if (folder / "ready").exists():
        return folder / "state"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    store = open_sqlite(str(folder / "state"))
    journal = Journal(store)
    coordinator = durable_coordinator(store, journal, clock_ms=monotonic_ms, settings=CoordinatorSettings())
    # after every commit of a `make_table` table, so that discovery finds no new commit during the measurement
    upto = Position(InstantTime(str(FIRST_INSTANT + 10**9)))
    key = GroupKey(TABLE, GROUP)
    begin = Progress(EARLIEST, layout=2)
    coordinator.handle(ev.CreateGroup(key=key, scope=scope(), limits=NO_LIMITS, progress=begin))
    if splits:
        plan = make_plan(splits, upto)
        number = coordinator.read(lambda state: state.groups[key].number)
        discovered = ev.Discovered(
            key=key,
            number=number,
            start=EARLIEST,
            commit_range=plan.commit_range,
            progress=Progress(upto, layout=2),
            facts=facts_of((split.size_bytes, split.partition, split.file_group) for split in plan.splits),
            reshaped=frozenset(),
            commits=1,
        )
        coordinator.handle(discovered, (round_id(key, number, plan.commit_range), plan))
        if splits <= 200_000:
            sizes = sizes_alone(split.size_bytes for split in plan.splits)
            opened = ev.OpenPlan(
                plan_id=PLAN,
                request_id="",
                table=TABLE,
                query=PlanQuery(QueryKind.INCREMENTAL),
                facts=sizes,
                slots=SLOTS,
            )
            coordinator.handle(opened, (PLAN, plan))
    journal.close()
    store.close()
    (folder / "ready").touch()
    return folder / "state"


def make_plan(splits: int, upto: Position) -> Plan:
    """A plan of `splits` slices, each with a base file and two log files."""
    scan = Scan(
        table=TABLE,
        base_path="/lake/t",
        table_version=9,
        schema_json=_SCHEMA,
        columns=("id",),
        merge=CommitTimeOrdering(),
        visible=VisibleInstants(frozenset()),
    )
    return Plan(scan=scan, commit_range=CommitRange(EARLIEST, upto), splits=tuple(_splits(splits)))


def _splits(count: int) -> Iterator[Split]:
    for number in range(count):
        partition, group = f"p={number // 1000:04d}", f"{number:032x}-0"
        name = f"{partition}/.{group}_{FIRST_INSTANT + 10}.log"
        yield Split(
            split_id=f"{number:064x}",
            partition=partition,
            partition_values=(f"{number // 1000:04d}",),
            file_group=group,
            order_key=InstantTime(str(FIRST_INSTANT + 5)),
            base=FileRef(f"{partition}/{group}_0-1-1_{FIRST_INSTANT}.parquet", 100_000_000),
            base_instant=str(FIRST_INSTANT),
            logs=(FileRef(f"{name}.1_0-2-2", 1_000_000), FileRef(f"{name}.2_0-3-3", 1_000_000)),
        )

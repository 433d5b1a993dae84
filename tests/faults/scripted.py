"""Tables without storage for tests of the service: calls are counted and can be blocked."""

from __future__ import annotations

import threading

from penstock.proto.model.positions import CommitRange, InstantTime, Position
from penstock.proto.model.queries import PlanRequest
from penstock.proto.model.reports import TableDescription
from penstock.proto.model.splits import AllRows, CommitTimeOrdering, FileRef, Plan, Scan, Split, VisibleInstants

NEWEST = Position(InstantTime("20260101000000000"))
SCHEMA = '{"type":"record","name":"orders","fields":[{"name":"id","type":"string"}]}'


class CountedReads:
    """`TableReads` of tables with one commit of three files each. `calls` counts; `gate` blocks callers."""

    def __init__(self) -> None:
        self.calls = 0
        self.gate: threading.Event | None = None
        self._lock = threading.Lock()

    def check(self, path: str) -> None:
        """Every path holds a table."""

    def describe(self, path: str, name: str) -> TableDescription:
        """See `TableReads.describe`."""
        self._count()
        return TableDescription(
            table=name,
            base_path=path,
            hudi_name=name,
            table_type="COPY_ON_WRITE",
            table_version=9,
            timeline_layout=2,
            timeline_timezone="UTC",
            merge_mode="COMMIT_TIME_ORDERING",
            record_key_fields=("id",),
            partition_fields=(),
            ordering_fields=(),
            schema_json=SCHEMA,
            newest=NEWEST,
        )

    def newest(self, path: str, after: Position | None, max_commits: int) -> Position:
        """See `TableReads.newest`."""
        self._count()
        return NEWEST

    def plan(self, path: str, name: str, request: PlanRequest) -> Plan:
        """See `TableReads.plan`."""
        self._count()
        key = NEWEST.order_key
        scan = Scan(
            table=name,
            base_path=path,
            table_version=9,
            schema_json=SCHEMA,
            columns=("id",),
            where="",
            merge=CommitTimeOrdering(),
            visible=VisibleInstants(frozenset({key})),
            rows=AllRows(),
            partition_fields=(),
        )
        splits = tuple(
            Split(
                split_id=f"{key}:fg-{n}",
                partition="",
                partition_values=(),
                file_group=f"fg-{n}",
                order_key=key,
                base=FileRef(f"fg-{n}_0-1-1_{key}.parquet", 100),
                base_instant=key,
                logs=(),
            )
            for n in range(3)
        )
        return Plan(scan=scan, commit_range=CommitRange(NEWEST, NEWEST), splits=splits)

    def _count(self) -> None:
        with self._lock:
            self.calls += 1
        if self.gate is not None:
            self.gate.wait(30)

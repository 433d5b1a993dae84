"""Write stats about log files, compared with the files of every golden table: the rule that detects damage."""

from __future__ import annotations

import pathlib
from typing import Protocol

import pyarrow as pa
import pytest

from penstock.enumerator.planning.plan import plan_request
from penstock.proto.errors import UnsupportedFeature
from penstock.proto.model.queries import PlanRequest, Snapshot
from penstock.proto.model.splits import FileRef, Scan
from penstock.reader.log.damage import lost_records
from penstock.table.hudi_table import open_table
from penstock.table.log.blocks import LogBlock, read_blocks
from penstock.table.schema.avro import parse_record_schema
from tests.golden.catalogue import counted_entries

pytestmark = pytest.mark.golden

CASES = sorted({entry.case for entry in counted_entries()})


class Golden(Protocol):
    def table(self, name: str) -> pathlib.Path: ...


def logs_of(golden: Golden, case: str) -> list[tuple[Scan, FileRef, pa.Buffer]]:
    folder = golden.table(case)
    try:
        plan = plan_request(open_table(str(folder)), case, PlanRequest(table=case, query=Snapshot(), skip_corrupt=True))
    except UnsupportedFeature:
        return []
    return [
        (plan.scan, log, pa.py_buffer((folder / log.path).read_bytes())) for split in plan.splits for log in split.logs
    ]


def test_logs_of_every_table_match_the_stats_of_their_instants(golden: Golden) -> None:
    known, unknown, wrong = 0, [], []
    for case in CASES:
        for scan, log, data in logs_of(golden, case):
            if log.writes is None:
                unknown.append(f"{case}: {log.path}")
                continue
            blocks = [block for block in read_blocks(data, log.path) if isinstance(block, LogBlock)]
            lost = lost_records(blocks, data, log, scan, parse_record_schema(scan.schema_json))
            known += 1
            if lost:
                wrong.append(f"{case}: {log.path}: {lost}")
    assert wrong == []
    assert unknown == []
    assert known > 600

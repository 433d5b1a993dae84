"""The table that the demo writes: a copy of Hudi's rows in two instants, which the enumerator sees and plans."""

from __future__ import annotations

import pyarrow as pa

from penstock.engine.demo.stage import Stage
from penstock.engine.write.create import create_table
from penstock.engine.write.write import write
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.proto.errors import PenstockError
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest
from penstock.table.hudi_table import open_table
from penstock.table.schema.avro import META_COLUMNS


def write_copy(stage: Stage) -> tuple[str, str]:
    """Creates a table with the settings of the demo's, and writes the rows of Hudi's snapshot: first the older half of
    them, then all as an upsert. Returns its path and the completion time of the first instant."""
    path = str(stage.scratch / "written")
    properties = open_table(str(stage.table)).properties
    rows = data_columns(stage.sample.snapshot)
    create_table(
        path,
        rows.schema,
        record_key=properties.record_key_fields,
        partition_by=properties.partition_fields,
        ordering=properties.ordering_fields,
        buckets=2,
    )
    first = write(path, rows.slice(0, rows.num_rows // 2))
    write(path, rows)
    return path, first.completion_time


def new_splits(path: str, after: str) -> int:
    """How many splits the enumerator plans for what was committed after a completion time. PenstockError if none: then
    it does not see the commit."""
    request = PlanRequest(table=path, query=Incremental(after=Position(InstantTime(after))))
    splits = EmbeddedEnumerator().plan(request).splits
    if not splits:
        raise PenstockError(f"table {path}: the enumerator sees no commit after {after}; expected the second write's")
    return len(splits)


def data_columns(rows: pa.Table) -> pa.Table:
    """The rows without Hudi's meta columns."""
    return rows.select([name for name in rows.schema.names if name not in META_COLUMNS])

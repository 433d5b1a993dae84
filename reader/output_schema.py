"""What a scan's batches look like, for whoever only has to know: a planner loads nothing of the road to rows. Pure."""

from __future__ import annotations

import pyarrow as pa

from penstock.proto.model.changes import ChangesOf
from penstock.proto.model.splits import Scan
from penstock.reader.split.read_schema import output_schema as rows_schema


def output_schema(scan: Scan) -> pa.Schema:
    """The Arrow schema of a scan's batches: `scan.columns` in their order, the table's types, all nullable; of changes
    also their own columns, as text. ConfigurationError for a column that is not there, or asked for twice."""
    if scan.topic is not None:
        from penstock.reader.topics.record.read_schema import topic_output

        return topic_output(scan)
    if isinstance(scan.rows, ChangesOf):
        from penstock.reader.cdc.read_schema import changes_output

        return changes_output(scan)
    return rows_schema(scan)

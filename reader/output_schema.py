"""The schema of a scan's batches, for planners: importing this module loads no code that reads files. Pure."""

from __future__ import annotations

import pyarrow as pa

from penstock.proto.model.changes import ChangesOf
from penstock.proto.model.splits import Scan
from penstock.reader.split.read_schema import output_schema as rows_schema


def output_schema(scan: Scan) -> pa.Schema:
    """The Arrow schema of a scan's batches: `scan.columns` in their order, with the table's types, all nullable; for
    changes also their own columns, as text.

    ConfigurationError for a column that does not exist or is requested twice.
    """
    if scan.topic is not None:
        from penstock.reader.topics.record.read_schema import topic_output

        return topic_output(scan)
    if isinstance(scan.rows, ChangesOf):
        from penstock.reader.cdc.read_schema import changes_output

        return changes_output(scan)
    return rows_schema(scan)

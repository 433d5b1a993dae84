"""The meaning of a Debezium envelope: which image is the row, the kind of the change, and the source's columns. Pure.

Source: Debezium's change events, and Hudi `PostgresDebeziumSource`, `MysqlDebeziumSource`, `DebeziumConstants`: the row
is `after`, for a delete `before`; columns of the source are added under Hudi's names if the table has them.
`debezium.json` and `debezium.avro` decode envelopes.
"""

from __future__ import annotations

from typing import Final

from penstock.reader.topics.record.decoded import DELETE, PASSED, UPSERT, Unfit

KINDS: Final = {"c": UPSERT, "u": UPSERT, "r": UPSERT, "d": DELETE, "m": PASSED}
"""By operation: create, update, read (of a snapshot), delete, message (of the database's log, not a row)."""

SEQUENCE: Final = "_event_seq"
ADDED: Final = {
    "_change_operation_type": ("op",),
    "_upstream_event_processed_ts_ms": ("ts_ms",),
    "db_shard_source_partition": ("source", "name"),
    "db_schema_source_partition": ("source", "schema"),
    "_event_origin_ts_ms": ("source", "ts_ms"),
    "_event_tx_id": ("source", "txId"),
    "_event_lsn": ("source", "lsn"),
    "_event_xmin": ("source", "xmin"),
    "_event_bin_file": ("source", "file"),
    "_event_pos": ("source", "pos"),
    "_event_row": ("source", "row"),
}
"""The columns that Hudi adds, and the place of their values in the envelope."""

SOURCE_FIELDS: Final = tuple(path[1] for path in ADDED.values() if len(path) == 2)


def kind_of(operation: object) -> int:
    """UPSERT, DELETE or PASSED. Unfit for an operation that does not change a row."""
    kind = KINDS.get(operation) if isinstance(operation, str) else None
    if kind is None:
        what = "the truncation of its table" if operation == "t" else f"operation {str(operation)[:40]!r}"
        raise Unfit(f"value is a Debezium event of {what}, which does not change a row")
    return kind


def event_sequence(file: object, position: object) -> str | None:
    """Hudi's position of a MySQL event, `<number of the file>.<position>`; None if the source has none."""
    if not isinstance(file, str) or type(position) is not int or not file.strip() or position < 0:
        return None
    return f"{file.rpartition('.')[2]}.{position}"

"""A changelog as the rows of an upsert: rows and deletes, those of each key in the order of its changes.

The columns are those of Penstock's own changes (`query=cdc`); any source of changes can have them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from penstock.engine.spark.write.input import arrow_columns, quoted
from penstock.engine.write.operations import Operation
from penstock.engine.write.planned_write import PlannedWrite
from penstock.engine.write.prepared_rows import check_present
from penstock.proto.errors import ConfigurationError
from penstock.table.schema.changes import CHANGE_INSTANT, CHANGE_SEQ, CHANGE_TYPE
from penstock.writer.rows.keyed_rows import IS_DELETED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ROWS: Final = ("+I", "+U")
_REMOVALS: Final = ("-U", "-D")
"""The old row of an update too: the new one may have another key, or be filtered out."""


def upserted_rows(df: DataFrame, planned: PlannedWrite) -> DataFrame:
    """The rows that a write of the data frame upserts: its changes, if the operation is `upsert` and it has the column
    `_change_type`, which the table lacks. Otherwise the data frame as it is.

    The changes of a key are in the order of `_change_seq`, in one task, so that the last one counts: of equal rows of a
    key in a partition the later one is written. `+I` and `+U` are the row of the key; `-U` and `-D` delete it, by
    `_hoodie_is_deleted`. The columns of changes are left out.

    ConfigurationError for a delete of changes or of their partitions, and for a table with ordering columns: there a
    stored row with a higher value would win over a change that comes after it. SchemaMismatch if `_change_seq` or a
    column of the key is missing; while the rows are written, for another text in `_change_type`, and for a null in
    either column.
    """
    record = planned.early.record
    stored = record.by_name() if record is not None else {}
    settings, where = planned.settings, planned.settings.where
    if CHANGE_TYPE not in df.columns or CHANGE_TYPE in stored:
        return df
    if planned.operation in (Operation.DELETE, Operation.DELETE_PARTITION):
        what = "rows" if planned.operation is Operation.DELETE else "partitions"
        raise ConfigurationError(
            f"{where}: got changes ({CHANGE_TYPE}), and operation {planned.operation.value!r} would delete the {what} "
            "of all of them: an upsert applies changes; nothing was written"
        )
    if planned.operation is not Operation.UPSERT:
        return df
    if settings.ordering_fields:
        raise ConfigurationError(
            f"{where}: got changes ({CHANGE_TYPE}), which {CHANGE_SEQ} orders, and the table orders rows by "
            f"{', '.join(settings.ordering_fields)}: a stored row could win over a later change; nothing was written. "
            f"Create the table without `ordering`, or drop {CHANGE_TYPE}, and mark deletes by {IS_DELETED}"
        )
    check_present(arrow_columns(df.schema, where).empty_table(), (*settings.key_fields, CHANGE_SEQ), where)
    keys = [quoted(name) if name in df.columns else name for name in settings.key_fields]
    of_changes = [name for name in (CHANGE_TYPE, CHANGE_SEQ, CHANGE_INSTANT) if name not in stored]
    marked = df.withColumn(IS_DELETED, _removes(where))
    # Of changes with one sequence, such as the old and the new row of an update, the row counts.
    in_order = marked.repartition(*keys).sortWithinPartitions(CHANGE_SEQ, F.col(IS_DELETED).desc())
    return in_order.drop(*of_changes)


def _removes(where: str) -> Column:
    """Whether a change removes the row of its key."""
    change = F.col(CHANGE_TYPE)
    error = F.concat(
        F.lit(f"penstock.proto.errors.SchemaMismatch: {where}: got a change with {CHANGE_TYPE} "),  # `errors_of_tasks`
        F.coalesce(change, F.lit("null")),
        F.lit(f" and {CHANGE_SEQ} "),
        F.coalesce(F.col(CHANGE_SEQ).cast("string"), F.lit("null")),
        F.lit(f", expected one of {', '.join((*_ROWS, *_REMOVALS))}, and a value that orders it; nothing was written"),
    )
    is_known = change.isin(*_ROWS, *_REMOVALS) & F.col(CHANGE_SEQ).isNotNull()
    return F.when(F.coalesce(is_known, F.lit(False)), change.isin(*_REMOVALS)).otherwise(
        F.raise_error(error).cast("boolean")
    )

"""The ordering column of files that were written before its type changed: read only where the order is still the same.

Pure. Hudi compares the values after their conversion; what was newer when it was written must be so afterwards, else
a row that once won would lose. Not here: the conversion (`widening`), the order itself (`merge.ordering`).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.proto.errors import UnsupportedFeature
from penstock.table.log.delete_walk import INT, NULL
from penstock.table.log.deletes import DeleteRecords
from penstock.table.schema.avro import AvroField, AvroType, RecordSchema
from penstock.table.schema.compatibility import Same, compatible, type_name
from penstock.table.schema.promotion import keeps_order

_NONE_OF_ITS_OWN: Final = 0
"""IntWrapper 0: what Hudi writes for a delete without ordering value."""


def check_order_kept(written: AvroType, wanted: AvroField, where: str) -> None:
    """UnsupportedFeature, beginning with `where`, if values as written have another order than the table's column."""
    if not keeps_order(written, wanted.type):
        raise UnsupportedFeature(
            f"{where}: ordering column {wanted.name!r} changed from {type_name(written)} to "
            f"{type_name(wanted.type)}, which orders its values in another way; let Hudi compact the file group"
        )


def has_foreign_values(deletes: DeleteRecords, default: np.ndarray) -> bool:
    """Whether some of the deletes carry an ordering value of another class than the column's (`default`, as
    `DeleteRecords.ordering_as` tells, and neither null nor Hudi's IntWrapper 0)."""
    blank = (deletes.kinds == NULL) | ((deletes.kinds == INT) & (deletes.numbers == _NONE_OF_ITS_OWN))
    return bool((default & ~blank).any())


def check_same_type(writer: RecordSchema, wanted: AvroField, where: str) -> None:
    """UnsupportedFeature for deletes with foreign values from before the column's type changed: Hudi's answer depends
    on the Java class of such a value."""
    written = writer.by_name().get(wanted.name)
    if written is not None and compatible(written.type, wanted.type, wanted.name) != Same():
        raise UnsupportedFeature(
            f"{where}: deletes with values of ordering column {wanted.name!r} as {type_name(written.type)}, which is "
            f"{type_name(wanted.type)} now; let Hudi compact the file group"
        )

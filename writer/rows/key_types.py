"""The types of key and partition columns that a write makes text of. Pure.

Source: Hudi `HoodieAvroUtils.getNestedFieldValAsString`, `BuiltinKeyGenerator`: the text of a timestamp depends on an
option that no table records (`hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled`), and on the
way of the rows through the writer.
"""

from __future__ import annotations

import pyarrow as pa

from penstock.proto.errors import SchemaMismatch, UnsupportedFeature
from penstock.writer.rows.timestamp_partitions import TimePartitions


def check_key_type(kind: pa.DataType, what: str) -> None:
    """UnsupportedFeature, beginning with `what`, for a type whose text Hudi's writers do not agree on; SchemaMismatch
    for one that no key has."""
    if pa.types.is_nested(kind):
        raise SchemaMismatch(f"{what} is {kind}: expected a column of a plain type")
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_binary(kind):
        raise UnsupportedFeature(
            f"{what} is {kind}: Hudi's writers make different texts of such values, so that rows would repeat; have a "
            "key of text, numbers, dates or booleans"
        )


def check_partition_type(kind: pa.DataType, times: TimePartitions | None, what: str) -> None:
    """UnsupportedFeature, beginning with `what`, for a type whose text Hudi's writers do not agree on; SchemaMismatch
    for one that is no time in a column of `times`."""
    if times is not None:
        is_fine = pa.types.is_string(kind) if times.reads else pa.types.is_integer(kind) or pa.types.is_timestamp(kind)
        if not is_fine:
            raise SchemaMismatch(
                f"{what} is {kind}: expected {'text' if times.reads else 'whole numbers or timestamps'}, as its time "
                "partitions say"
            )
    elif not (
        pa.types.is_string(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date(kind)
        or pa.types.is_decimal(kind)
    ):
        raise UnsupportedFeature(
            f"{what} is {kind}: Hudi's writers disagree on the text of such values; partition by text, whole numbers, "
            "dates or booleans"
        )

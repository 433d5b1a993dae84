"""The base file of a split, opened with the columns that the read of the split needs."""

from __future__ import annotations

from collections.abc import Collection

from penstock.reader.base.file import BaseFile
from penstock.reader.split.context import SplitContext


def open_base(
    context: SplitContext, columns: tuple[str, ...], *, key: str = "", may_be_encoded: Collection[str] = ()
) -> BaseFile | None:
    """The split's base file, or None for a split without one. `key` and `may_be_encoded` are those of `BaseFile`.

    CorruptFile and SchemaMismatch as for `BaseFile`.
    """
    split, schema, table = context.split, context.schema, context.scan.table
    if split.base is None:
        return None
    return BaseFile(
        context.storage,
        split.base,
        schema.record,
        columns,
        table=table,
        key=key,
        names=schema.file_names(split.base_instant, f"table {table}: {split.base.path}"),
        may_be_encoded=may_be_encoded,
        tally=context.tally,
        compiled=context.options.by_kernels,
    )

"""The base file of a split, opened with the columns that the read of the split needs."""

from __future__ import annotations

from collections.abc import Collection

from penstock.reader.base.file import BaseFile
from penstock.reader.split.context import SplitContext
from penstock.table.orc import is_orc


def open_base(
    context: SplitContext, columns: tuple[str, ...], *, key: str = "", may_be_encoded: Collection[str] = ()
) -> BaseFile | None:
    """The split's base file, or None for a split without one. `key` and `may_be_encoded` are those of `BaseFile`.

    CorruptFile and SchemaMismatch as for `BaseFile`.
    """
    split, schema, table = context.split, context.schema, context.scan.table
    if split.base is None:
        return None
    names = schema.file_names(split.base_instant, f"table {table}: {split.base.path}")
    if is_orc(split.base.path):
        from penstock.reader.base.orc_file import OrcFile

        return OrcFile(
            context.storage, split.base, schema.record, columns, table=table, key=key, names=names, tally=context.tally
        )
    return BaseFile(
        context.storage,
        split.base,
        schema.record,
        columns,
        table=table,
        key=key,
        names=names,
        may_be_encoded=may_be_encoded,
        tally=context.tally,
    )

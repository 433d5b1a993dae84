"""The base file of a split, opened with the columns that the read of the split needs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from penstock.proto.errors import CorruptFile, InvariantViolation, SchemaMismatch
from penstock.proto.model.splits import FileRef
from penstock.reader.base.bootstrapped_file import IN_SKELETON, BootstrappedFile
from penstock.reader.base.file import BaseFile
from penstock.reader.split.context import SplitContext
from penstock.reader.split.scan_storage import SOURCES
from penstock.table.bootstrap.sources import BOOTSTRAP_BASE_PATH
from penstock.table.lance import is_lance
from penstock.table.orc import is_orc
from penstock.table.storage.filesystem import Storage
from penstock.table.storage.uris import redacted_uri

OpenBase = BaseFile | BootstrappedFile
"""An open base file; of a bootstrapped table perhaps a skeleton with its source."""

_WITHOUT_KEY: Final = ""


def open_base(
    context: SplitContext, columns: tuple[str, ...], *, key: str = "", may_be_encoded: Collection[str] = ()
) -> OpenBase | None:
    """The split's base file, or None for a split without one. `key` and `may_be_encoded` are those of `BaseFile`.

    CorruptFile and SchemaMismatch as for `BaseFile`; CorruptFile for a skeleton with another number of rows than its
    source.
    """
    split, schema, scan = context.split, context.schema, context.scan
    if split.base is None:
        return None
    names = schema.file_names(split.base_instant, f"table {scan.table}: {split.base.path}")

    def opened(storage: Storage, ref: FileRef, own: Sequence[str], key: str, where: str = "") -> BaseFile:
        record, tally = schema.record, context.tally
        if is_orc(ref.path):
            from penstock.reader.base.orc_file import OrcFile  # few tables need it, and its library

            return OrcFile(storage, ref, record, own, table=scan.table, key=key, where=where, names=names, tally=tally)
        if is_lance(ref.path):
            from penstock.reader.base.lance_file import LanceFile

            return LanceFile(storage, ref, record, own, table=scan.table, key=key, names=names, tally=tally)
        return BaseFile(
            storage,
            ref,
            record,
            own,
            table=scan.table,
            key=key,
            where=where,
            names=names,
            may_be_encoded=may_be_encoded,
            tally=tally,
            compiled=context.options.by_kernels,
        )

    source = split.base.source
    if source is None:
        return opened(context.storage, split.base, columns, key)
    if not scan.bootstrap_base_path:
        raise InvariantViolation(f"split {split.split_id} of table {scan.table} has a source, its scan no folder of it")
    skeleton = opened(context.storage, split.base, [name for name in columns if name in IN_SKELETON], key)
    try:
        where = f"table {scan.table}: source file {source.path} of base file {split.base.path}"
        own = [name for name in columns if name not in IN_SKELETON]
        rest = opened(SOURCES.of(scan), source, own, _WITHOUT_KEY, where)
    except CorruptFile as error:
        skeleton.close()
        if not error.is_gone:
            raise
        raise CorruptFile(  # no cleaner deletes source files: to plan again finds no other one
            f"{where} is missing in {redacted_uri(scan.bootstrap_base_path)}: restore it, or correct "
            f"{BOOTSTRAP_BASE_PATH}"
        ) from None
    except BaseException:
        skeleton.close()
        raise
    try:
        if lacking := [name for name in own if name in scan.partition_fields and name not in rest.stored_schema.names]:
            raise SchemaMismatch(
                f"{where} lacks partition column {lacking[0]!r}, by which its rows are merged with a log"
            )
        return BootstrappedFile(skeleton, rest, columns, key)
    except BaseException:
        skeleton.close()
        rest.close()
        raise

"""`penstock create`, `penstock write`, `penstock rollback`: create a table, write a file into it, roll a write back."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.cli.commands.table_services.options import connection_options, with_connection_flags
from penstock.engine.cli.output.rows import ReportFormat, write_json, write_text_table
from penstock.proto.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa

_Table = Annotated[str, typer.Argument(metavar="TABLE", help="Path of a table on a local file system.")]
_INDEXES = "bucket|simple|bloom|global_simple|global_bloom"
"""Not an enumeration: the error for another index of Hudi has its reason."""
_Form = Annotated[ReportFormat, typer.Option("--format", help="Format of the result.")]


_Times = Annotated[
    list[str] | None,
    typer.Option(
        "--time-partition",
        metavar="NAME=VALUE",
        help="Option hoodie.keygen.timebased.NAME of times as partitions, such as timestamp.type.",
    ),
]


class TableKind(StrEnum):
    """Types of a table."""

    MERGE_ON_READ = "merge_on_read"
    COPY_ON_WRITE = "copy_on_write"


class ChangeLoggingKind(StrEnum):
    """What writers log of changed rows."""

    OP_KEY_ONLY = "op_key_only"
    DATA_BEFORE = "data_before"
    DATA_BEFORE_AFTER = "data_before_after"


class KeyGeneratorKind(StrEnum):
    """Key generators of a table."""

    SIMPLE = "SIMPLE"
    COMPLEX = "COMPLEX"
    NON_PARTITION = "NON_PARTITION"
    TIMESTAMP = "TIMESTAMP"
    CUSTOM = "CUSTOM"


class MetadataKind(StrEnum):
    """What a write does with a metadata table."""

    FILES = "files"
    OFF = "off"


class WriteKind(StrEnum):
    """Operations of a write."""

    UPSERT = "upsert"
    INSERT = "insert"
    BULK_INSERT = "bulk_insert"
    DELETE = "delete"
    INSERT_OVERWRITE = "insert_overwrite"
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"
    DELETE_PARTITION = "delete_partition"


_ChangeLogging = Annotated[
    ChangeLoggingKind | None,
    typer.Option(
        "--change-logging",
        help="What all writers log of each changed row, for queries of changes; by default nothing.",
        show_default=False,
    ),
]
_CompactAfter = Annotated[
    int | None,
    typer.Option(
        "--compact-after",
        metavar="N",
        min=1,
        help="Compact the table if N delta commits completed since the last compaction.",
        show_default=False,
    ),
]
_Index = Annotated[
    str | None,
    typer.Option(
        "--index",
        metavar=_INDEXES,
        help="Index of the table's writers, if `create` did not store it.",
        show_default=False,
    ),
]
_Server = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="HOST:PORT", help="The server that coordinates the table's writers.", show_default=False
    ),
]
_UpdatePartitionPath = Annotated[
    bool | None,
    typer.Option(
        "--update-partition-path/--keep-partition-path",
        help="With a global index: whether a row of another partition moves its key there (the default), or is "
        "written where its key is.",
        show_default=False,
    ),
]


def create(
    table: _Table,
    schema: Annotated[
        str, typer.Option("--schema", metavar="FILE", help="Parquet or Arrow file with the columns, or an Avro schema.")
    ],
    record_key: Annotated[list[str], typer.Option("--record-key", metavar="COLUMN", help="Column of the record key.")],
    partition_by: Annotated[
        list[str] | None,
        typer.Option(
            "--partition-by",
            metavar="COLUMN",
            help="Column of the partitions; for CUSTOM, COLUMN:SIMPLE or COLUMN:TIMESTAMP.",
        ),
    ] = None,
    ordering: Annotated[
        list[str] | None,
        typer.Option("--ordering", metavar="COLUMN", help="Of rows of one key, the one with the highest value wins."),
    ] = None,
    table_type: Annotated[TableKind, typer.Option("--table-type", help="Type of the table.")] = TableKind.MERGE_ON_READ,
    table_version: Annotated[int, typer.Option("--table-version", help="Table version: 9 or 6.")] = 9,
    index: Annotated[str, typer.Option("--index", metavar=_INDEXES, help="Index of all writers.")] = "bucket",
    buckets: Annotated[
        int | None, typer.Option("--buckets", help="Buckets of a partition, for a bucket index.", show_default=False)
    ] = None,
    hive_style: Annotated[bool, typer.Option("--hive-style", help="Partition folders are COLUMN=VALUE.")] = False,
    url_encode: Annotated[bool, typer.Option("--url-encode", help="Partition folders are URL-encoded.")] = False,
    key_generator: Annotated[
        KeyGeneratorKind | None,
        typer.Option("--key-generator", help="Hudi's key generator; by default by the columns.", show_default=False),
    ] = None,
    time_partition: _Times = None,
    change_logging: _ChangeLogging = None,
    store_operations: Annotated[
        bool, typer.Option("--store-operations", help="Files store the operation of each row: a changelog.")
    ] = False,
    name: Annotated[str, typer.Option("--name", help="Name of the table; by default that of the folder.")] = "",
    metadata_table: Annotated[
        bool, typer.Option("--metadata-table", help="The table has a metadata table from the start.")
    ] = False,
    form: _Form = ReportFormat.TABLE,
) -> None:
    """Create an empty table."""
    from penstock.engine.write.create import create_table

    create_table(
        table,
        _schema_of(schema),
        record_key=record_key,
        partition_by=partition_by or (),
        ordering=ordering or (),
        table_type=table_type.value,
        table_version=table_version,
        index=index,
        buckets=buckets,
        name=name,
        hive_style_partitioning=hive_style,
        url_encode_partitions=url_encode,
        key_generator=None if key_generator is None else key_generator.value,
        metadata_table=metadata_table,
        time_partitions=_time_options(time_partition),
        change_logging=None if change_logging is None else change_logging.value,
        store_operations=store_operations,
    )
    if form is ReportFormat.JSON:
        write_json({"table": table, "table_version": table_version})
        return
    typer.echo(f"created {table}")


@with_connection_flags
def write(
    context: typer.Context,
    table: Annotated[
        str,
        typer.Argument(metavar="TABLE", help="Path of a table on a local file system; with --server its name there."),
    ],
    flags: dict[str, str | None],
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Parquet, Arrow or JSON lines (.parquet, .arrow, .jsonl).")
    ],
    operation: Annotated[WriteKind, typer.Option("--operation", help="What the rows do.")] = WriteKind.UPSERT,
    index: _Index = None,
    buckets: Annotated[
        int | None,
        typer.Option("--buckets", help="Buckets of a partition; by default those of the files.", show_default=False),
    ] = None,
    timeline_timezone: Annotated[
        str, typer.Option("--timeline-timezone", metavar="ZONE", help="Zone of the writers of a LOCAL timeline.")
    ] = "",
    sole_writer: Annotated[
        bool, typer.Option("--sole-writer", help="Nobody else writes the table: roll pending writes back.")
    ] = False,
    time_partition: _Times = None,
    metadata: Annotated[
        MetadataKind,
        typer.Option("--metadata", help="Keep the listing of a metadata table current, or remove the metadata table."),
    ] = MetadataKind.FILES,
    compact_after: _CompactAfter = None,
    update_partition_path: _UpdatePartitionPath = None,
    server: _Server = None,
    form: _Form = ReportFormat.TABLE,
) -> None:
    """Write the rows of a file into a table, as one instant."""
    from dataclasses import asdict

    from penstock.engine.table_services.inline_compaction import write as write_table
    from penstock.engine.write.service.remote_transaction import write_server

    connection = connection_options(context, flags, server)
    known = write_server(server, connection)
    result = write_table(
        table,
        _rows_of(file, table if known is None else known.path_of(table)),
        operation.value,
        index=index,
        buckets=buckets,
        timeline_timezone=timeline_timezone,
        sole_writer=sole_writer,
        metadata=metadata.value,
        time_partitions=_time_options(time_partition),
        compact_after=compact_after,
        update_partition_path=update_partition_path,
        server=server,
        server_options=connection,
    )
    fields = asdict(result)
    if form is ReportFormat.JSON:
        write_json(fields)
        return
    texts = {name: ", ".join(value) if isinstance(value, tuple) else str(value) for name, value in fields.items()}
    write_text_table(("field", "value"), list(texts.items()))


def rollback(
    table: _Table,
    instant: Annotated[
        str | None,
        typer.Argument(metavar="INSTANT", help="A pending write; by default all whose writers no longer run."),
    ] = None,
    timeline_timezone: Annotated[
        str, typer.Option("--timeline-timezone", metavar="ZONE", help="Zone of the writers of a LOCAL timeline.")
    ] = "",
    form: _Form = ReportFormat.TABLE,
) -> None:
    """Roll back pending writes, whose writers were killed."""
    from penstock.engine.write.rollback import rollback as roll_back

    instants = roll_back(table, instant, timeline_timezone=timeline_timezone)
    if form is ReportFormat.JSON:
        write_json({"table": table, "rolled_back": list(instants)})
        return
    typer.echo(f"rolled back {', '.join(instants)}" if instants else "nothing to roll back")


def _time_options(given: list[str] | None) -> dict[str, str]:
    options = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise ConfigurationError(f"--time-partition: got {text[:80]!r}, expected NAME=VALUE")
        options[name] = value
    return options


def _rows_of(file: str, table: str) -> pa.RecordBatchReader:
    from penstock.engine.write.data_files import is_json, read_rows, table_columns

    return read_rows(file, table_columns(table) if is_json(file) else None)


def _schema_of(file: str) -> pa.Schema:
    from penstock.engine.write.data_files import read_schema

    return read_schema(file)

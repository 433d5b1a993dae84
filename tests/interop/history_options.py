"""Options of a history's table beside its shape: column types, key generator, writer, file formats. Pure.

They have a separate seed, so that the shape and the actions of a history do not depend on them. Defines the options,
their values and invalid combinations.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

COLUMNS: Final[Mapping[str, str]] = {
    "boolean": "c2 % 2 = 0",
    "tinyint": "cast(c2 % 100 AS tinyint)",
    "smallint": "cast(c2 * 7 AS smallint)",
    "float": "cast(c2 / 7 AS float)",
    "binary": "cast(concat('b', c2) AS binary)",
    "local_timestamp": "cast(timestamp_micros(1700000000000000 + c2 * 1000003) AS timestamp_ntz)",
    "small_decimal": "cast(c2 / 10 AS decimal(6, 1))",
    "big_decimal": "cast(c2 + 0.125 AS decimal(38, 12))",
    "char": "cast(c2 AS char(8))",
    "list_of_smallint": "array(cast(c2 AS smallint), 1S)",
    "list_of_decimal": "array(cast(c2 + 0.5 AS decimal(20, 3)))",
    "list_of_list": "array(array(c2, 0L), array())",
    "list_of_struct": "array(named_struct('a', c2, 'b', array(concat('x', c2))))",
    "map_of_float": "map('f', cast(c2 / 7 AS float), 'none', null)",
    "map_of_struct": "map('s', named_struct('a', c2, 'b', c2 % 2 = 0))",
    "struct_of_moments": "named_struct('day', date_add(date'2023-11-14', cast(c2 AS int)), 'at', timestamp_micros(c2))",
    "struct_of_binary": "named_struct('b', cast(concat('b', c2) AS binary), 'n', cast(null AS int))",
}
"""Column type -> SQL over the row's value c2. Lists contain no null, because Hudi's Avro writer does not support it."""

_NARROW: Final = frozenset({"smallint", "list_of_smallint"})

KEY_GENERATORS: Final[Mapping[str, str]] = {
    "simple": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "complex": "org.apache.hudi.keygen.ComplexKeyGenerator",
    "custom": "org.apache.hudi.keygen.CustomKeyGenerator",
    "timestamp": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
    "none": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
}
DAYS: Final[Mapping[str | None, str]] = {"oslo": "2024-01-05", "riga": "2024-01-06", "new york": "2023-12-31"}
"""The day by which the timestamp generator partitions the rows of a city."""

VALUES: Final[Mapping[str, tuple[object, ...]]] = {
    "columns": tuple(COLUMNS),
    "writer": ("dataframe", "sql", "java"),
    "row_writer": (True, False),
    "key_generator": tuple(KEY_GENERATORS),
    "log_blocks": ("avro", "parquet", "hfile"),
    "records": ("avro", "spark"),
    "url_encode": (True, False),
    "operation_column": (True, False),
    "codec": ("snappy", "gzip", "zstd", "uncompressed"),
    "dictionary": (True, False),
    "legacy_parquet": (True, False),
    "int96": (True, False),
    "meta_columns": (True, False),
    "drops_partition_columns": (True, False),
}
"""Option -> all of its values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One value of each option of VALUES.

    columns: column types beside those of every history. writer: the writer of rows; the DataFrame writes the first
    commit and what SQL or the Java client do not support. row_writer: whether `bulk_insert` writes rows of Spark.
    records: the records that Hudi merges, Avro or rows of Spark. operation_column:
    `hoodie.allow.operation.metadata.field`.
    """

    columns: tuple[str, ...] = ()
    writer: str = "dataframe"
    row_writer: bool = True
    key_generator: str = "simple"
    log_blocks: str = "avro"
    records: str = "avro"
    url_encode: bool = False
    operation_column: bool = False
    codec: str = "gzip"
    dictionary: bool = True
    legacy_parquet: bool = False
    int96: bool = False
    meta_columns: bool = True
    drops_partition_columns: bool = False

    @property
    def is_read_by_rows(self) -> bool:
        """Whether Spark's vectorized reader fails: on nulls among narrow numbers, and on narrow numbers inside of
        columns."""
        return self.row_writer and bool(_NARROW.intersection(self.columns))


def options_of(
    seed: int,
    release: str,
    *,
    version: int,
    merge_on_read: bool,
    partitioned: bool,
    index: str,
    small_files: bool,
    is_plain: bool,
) -> Options:
    """The options of a seed, limited to a combination that the release can write.

    Older releases only write the types of every history, because each fails on some of the others. The row writer of
    1.2.0 has no TINYINT. is_plain: one writer, no logged changes, no null partition, each key once.
    """
    if release != "1.2.0":
        return Options(key_generator="simple" if partitioned else "none")
    draw = random.Random(f"options/{release}/{seed}")
    row_writer = draw.random() < 0.6
    names = draw.sample(list(COLUMNS), draw.randint(0, 6))
    writer = draw.choice(("dataframe", "dataframe", "sql", "java"))
    blocks = draw.choices(("avro", "parquet", "hfile"), weights=(12, 6, 1))[0]
    records = "spark" if draw.random() < 0.25 else "avro"
    generator = draw.choice(("simple", "simple", "complex", "custom")) if partitioned else "none"
    # INSERT INTO does not know a custom generator's fields; the Java client is given its keys by the test, and in newer
    # tables adds inserts to a small base file without the logs of its slice: updates in them are lost (seed 41)
    loses_logs = version > 6 and merge_on_read and small_files
    is_java = index == "simple" and generator != "complex" and not loses_logs
    can_write = {"dataframe": True, "sql": generator != "custom", "java": is_java}
    options = Options(
        columns=tuple(name for name in names if not row_writer or name != "tinyint"),
        writer=writer if can_write[writer] else "dataframe",
        row_writer=row_writer,
        key_generator=generator,
        log_blocks=blocks if merge_on_read else "avro",
        # Hudi merges Spark's rows only from Parquet blocks
        records=records if version > 6 and (not merge_on_read or blocks == "parquet") else "avro",
        url_encode=draw.random() < 0.3,
        operation_column=draw.random() < 0.15,
        codec=draw.choice(("snappy", "gzip", "zstd", "uncompressed")),
        dictionary=draw.random() < 0.7,
        legacy_parquet=draw.random() < 0.3,
        int96=draw.random() < 0.2,
    )
    without_meta, drops, by_day = (draw.random() < 0.12 for _ in range(3))
    if not (is_plain and options.writer == "dataframe"):
        return options
    if without_meta and index == "simple":
        return replace(options, meta_columns=False, operation_column=False)
    if partitioned and index != "global" and (drops or by_day):
        generator = "timestamp" if by_day else "simple"
        return replace(options, key_generator=generator, drops_partition_columns=drops)
    return options


def partition_column(options: Options) -> str:
    """The column with the partition's value."""
    return "opened" if options.key_generator == "timestamp" else "city"


def columns_of(options: Options) -> list[tuple[str, str]]:
    """The additional columns as SQL expressions; every fifth row has nulls."""
    columns = [(f"t_{name}", f"if(c2 % 5 = 1, null, {COLUMNS[name]})") for name in options.columns]
    if options.key_generator == "timestamp":
        cases = " ".join(f"WHEN '{city}' THEN '{day}'" for city, day in DAYS.items())
        columns.append(("opened", f"CASE c3 {cases} END"))
    return columns


def write_options(options: Options) -> dict[str, str]:
    """The options of every write and procedure; empty for Hudi's defaults."""
    if options == Options():
        return {}
    settings = {"hoodie.datasource.write.keygenerator.class": KEY_GENERATORS[options.key_generator]}
    if options == Options(key_generator=options.key_generator):
        return settings
    settings |= {
        "hoodie.datasource.write.row.writer.enable": str(options.row_writer).lower(),
        "hoodie.datasource.write.partitionpath.urlencode": str(options.url_encode).lower(),
        "hoodie.parquet.compression.codec": options.codec,
        "hoodie.parquet.dictionary.enabled": str(options.dictionary).lower(),
        "hoodie.parquet.writelegacyformat.enabled": str(options.legacy_parquet).lower(),
        "hoodie.parquet.outputtimestamptype": "INT96" if options.int96 else "TIMESTAMP_MICROS",
    }
    if options.log_blocks != "avro":
        settings["hoodie.logfile.data.block.format"] = options.log_blocks
    if options.records == "spark":
        settings["hoodie.write.record.merge.custom.implementation.classes"] = "org.apache.hudi.DefaultSparkRecordMerger"
    if not options.meta_columns:
        settings["hoodie.populate.meta.fields"] = "false"
    if options.drops_partition_columns:
        settings["hoodie.datasource.write.drop.partition.columns"] = "true"
    if options.key_generator == "timestamp":
        settings |= {
            "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
            "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd",
            "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
        }
    if options.operation_column:
        settings["hoodie.allow.operation.metadata.field"] = "true"
    return settings

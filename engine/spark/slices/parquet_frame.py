"""A DataFrame of Spark's own Parquet scan over an exact list of files.

Spark gets the list as the log of a file sink (`_spark_metadata`), which it reads instead of listing folders. So the
scan has exactly these files: nothing is listed, no character of a path has a meaning, REFRESH TABLE changes nothing,
and a file that was deleted since is an error that names it (Spark's own listing would leave it out). Source: Spark
`MetadataLogFileIndex`, `FileStreamSinkLog`.
"""

from __future__ import annotations

import json
import pathlib
import re
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.types as pat

from penstock.engine.spark.schema.types import spark_type
from penstock.engine.spark.slices.divide import SparkFile, SparkFiles
from penstock.engine.spark.slices.scan_options import DESCRIBED
from penstock.proto.errors import ConfigurationError
from penstock.table.storage.filesystem import open_folder
from penstock.table.storage.uris import folder_uri

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_PINNED: Final = {
    "recursiveFileLookup": "true",  # no partition columns from paths; and the log's files may be in any folder
    "mergeSchema": "false",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",  # for files that do not name their writer; others say it themselves
    "int96RebaseMode": "CORRECTED",
}
_NO_PUSHDOWN: Final = {
    f"parquet.filter.{part}.enabled": "false" for part in ("stats", "dictionary", "columnindex", "bloom")
}
_REQUIRED: Final = {
    "spark.sql.parquet.enableVectorizedReader": "true",
    "spark.sql.parquet.enableNestedColumnVectorizedReader": "true",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.streaming.fileStreamSink.metadata.ignored": "false",
}
"""Settings that no option overrides, with the only value under which Spark's scan is used."""
_SOURCES: Final = "spark.sql.sources.useV1SourceList"
_SCHEMES: Final = {"s3": "s3a", "s3n": "s3a", "s3a": "s3a", "gs": "gs", "gcs": "gs", "hdfs": "hdfs", "viewfs": "viewfs"}
_SAFE: Final = "/-_.~!$&'()*+,;=:@"
_BLOCK_BYTES: Final = 128 << 20


class OtherFiles(Exception):
    """Spark's scan does not have exactly the files that it was given."""


def unusable_setting(spark: SparkSession) -> str:
    """The setting of the session because of which its Parquet scan is not used; '' if there is none."""
    for name, value in _REQUIRED.items():
        if (spark.conf.get(name, value) or "").lower() != value:
            return f"{name} is not {value}"
    sources = (spark.conf.get(_SOURCES, "parquet") or "").lower().split(",")
    return "" if "parquet" in (source.strip() for source in sources) else f"{_SOURCES} does not have parquet"


def spark_folder(base_path: str) -> str:
    """The table's folder as a URI for Spark's file system; '' if Spark may reach it in another way or not at all.

    A URI with parameters or credentials has these for Penstock alone.
    """
    try:
        uri = folder_uri(base_path)
        if not uri or uri.startswith("file:"):
            return f"file://{quote(open_folder(base_path)[1].rstrip('/'), safe=_SAFE)}"
    except ConfigurationError:
        return ""
    match = re.fullmatch(r"([A-Za-z0-9+.-]+)://([^/?#@]+)(/[^?#]*)?", base_path.rstrip("/"))
    if match is None or match[1].lower() not in _SCHEMES:
        return ""
    return f"{_SCHEMES[match[1].lower()]}://{match[2]}{quote(match[3] or '', safe=_SAFE)}"


def check_reach(spark: SparkSession, folder: str, file: SparkFile) -> None:
    """Raises Spark's error if its file system does not find this file of the table. A local file is not looked up."""
    if not folder.startswith("file:"):
        spark.read.schema("_ int").option("__globPaths__", "false").parquet(
            f"{unquote(folder)}/{file.path}"
        ).inputFiles()


def parquet_frame(
    spark: SparkSession, folder: str, branch: SparkFiles, output: pa.Schema, stored: str, description: str
) -> DataFrame:
    """The rows of the branch's files with the columns of `output`, all nullable. No file is opened yet.

    `folder`: `spark_folder` of the table. `stored`: the column that is read if every column is a constant.
    `description`: the option DESCRIBED.
    OtherFiles if Spark does not have exactly these files; Spark's errors if it cannot reach them.
    """
    from pyspark.sql import types as st

    constants = dict(branch.constants)
    read = [field for field in output if field.name not in constants]
    schema = st.StructType([st.StructField(field.name, spark_type(field.type, field.name), True) for field in read])
    if not read:
        schema = st.StructType([st.StructField(stored, st.StringType(), True)])
    options = {**_PINNED, DESCRIBED: description, **({} if branch.reading.pushes else _NO_PUSHDOWN)}
    frame = _scan(spark, folder, branch.files, schema, options)
    if not constants and not branch.reading.unpushed:
        return frame
    return frame.select(*(_column(field, constants, branch.reading.unpushed) for field in output))


def _scan(
    spark: SparkSession, folder: str, files: Sequence[SparkFile], schema: StructType, options: dict[str, str]
) -> DataFrame:
    uris = [f"{folder}/{quote(file.path, safe=_SAFE)}" for file in files]
    with tempfile.TemporaryDirectory(prefix="penstock-files-") as listed:
        log = pathlib.Path(listed, "_spark_metadata")
        log.mkdir()
        entries = [json.dumps(_entry(uri, file)) for uri, file in zip(uris, files, strict=True)]
        log.joinpath("0").write_text("\n".join(["v1", *entries]), encoding="utf-8")
        frame = spark.read.schema(schema).options(**options).parquet(pathlib.Path(listed).as_uri())
        known = frame.inputFiles()
    if sorted(map(_plain, known)) != sorted(map(_plain, uris)):
        raise OtherFiles(f"Spark lists {len(known)} files, expected these {len(uris)}: {', '.join(uris)[:200]}")
    return frame


def _entry(uri: str, file: SparkFile) -> dict[str, object]:
    """Spark's `SinkFileStatus`."""
    return {
        "path": uri,
        "size": file.size_bytes,
        "isDir": False,
        "modificationTime": 0,
        "blockReplication": 1,
        "blockSize": _BLOCK_BYTES,
        "action": "add",
    }


def _plain(uri: str) -> str:
    return re.sub(r"^file:/+", "file:/", unquote(uri))


def _column(field: pa.Field, constants: dict[str, pa.Scalar], unpushed: frozenset[str]) -> Column:
    from pyspark.sql import functions as F

    name = field.name
    if name in constants:
        # nullif() of nothing makes the column nullable, as it is in the other branches; the optimizer removes it.
        nothing = F.lit(None).cast(spark_type(field.type, name))
        return F.nullif(literal(constants[name], name), nothing).alias(name)
    column = F.col(f"`{name}`")
    if name not in unpushed:
        return column
    # Equal values, but no longer a plain column, so that filters on it are evaluated and not pushed down.
    if pat.is_floating(field.type):
        return (column * F.lit(1.0).cast(spark_type(field.type, name))).alias(name)
    return F.timestamp_micros(F.unix_micros(column)).alias(name)


def literal(value: pa.Scalar, column: str) -> Column:
    """A constant of the value's Spark type, exact and without the session's time zone. ConfigurationError for a type
    that has none here."""
    from pyspark.sql import functions as F

    kind = value.type
    target = spark_type(kind, column)
    if not value.is_valid:
        return F.lit(None).cast(target)
    if pat.is_timestamp(kind) and kind.tz is not None:
        return F.timestamp_micros(F.lit(value.cast(pa.int64()).as_py()).cast("bigint"))
    if pat.is_date32(kind):
        return F.date_from_unix_date(F.lit(value.cast(pa.int32()).as_py()))
    if pat.is_decimal128(kind):
        return F.lit(str(value.as_py())).cast(target)
    if pat.is_string(kind) or pat.is_boolean(kind) or pat.is_integer(kind) or pat.is_floating(kind):
        return F.lit(value.as_py()).cast(target)
    if pat.is_binary(kind):
        return F.lit(bytearray(value.as_py()))
    raise ConfigurationError(f"column {column}: a constant of type {kind} is not written as a Spark literal")

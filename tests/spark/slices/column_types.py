"""Rows with a column of each type that Spark's Parquet reader may read, with values on which filters differ."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.oracle.slice_writer import META


def _decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def _record(**fields: Any) -> dict[str, Any]:
    members = [{"name": name, "type": ["null", kind], "default": None} for name, kind in fields.items()]
    return {"type": "record", "name": "r_" + "_".join(fields), "fields": members}


def fields(timestamps: str = "micros") -> dict[str, Any]:
    """The Avro types by column. `timestamps`: the unit of the table's column `tm`."""
    return {
        "id": "string",
        "i": "int",
        "l": "long",
        "f": "float",
        "x": "double",
        "s": "string",
        "b": "bytes",
        "z": "boolean",
        "d9": _decimal(9, 2),
        "d18": _decimal(18, 4),
        "d38": _decimal(38, 10),
        "day": {"type": "int", "logicalType": "date"},
        "ts": {"type": "long", "logicalType": "timestamp-micros"},
        "tm": {"type": "long", "logicalType": f"timestamp-{timestamps}"},
        "nt": {"type": "long", "logicalType": "local-timestamp-micros"},
        "st": _record(a="double", t="string"),
        "li": {"type": "array", "items": ["null", "int"]},
        "ls": {"type": "array", "items": ["null", _record(q="long")]},
        "mp": {"type": "map", "values": ["null", "double"]},
    }


_ROWS = """
SELECT {meta}, concat('k', id) id, cast(if(id % 7 = 0, null, id - 500) AS int) i,
  if(id % 5 = 0, null, id * 1000000007) l,
  cast(CASE id % 6 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0.0' WHEN 2 THEN '0.0' WHEN 3 THEN 'Infinity' ELSE id / 4 END
    AS float) f,
  cast(CASE id % 6 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0.0' WHEN 2 THEN '0.0' WHEN 3 THEN '-Infinity' WHEN 4 THEN null
    ELSE id / 4 END AS double) x,
  if(id % 4 = 0, null, concat('tëxt', id % 9)) s, if(id % 4 = 1, null, encode(concat('b', id % 5), 'utf-8')) b,
  if(id % 3 = 0, null, id % 2 = 0) z,
  cast(if(id % 5 = 1, null, (id - 300) * 1.25) AS decimal(9, 2)) d9,
  cast(if(id % 5 = 2, null, (id - 300) * 1.0625) AS decimal(18, 4)) d18,
  cast(if(id % 5 = 3, null, (id - 300) * 123456789012345.125) AS decimal(38, 10)) d38,
  if(id % 4 = 2, null, date_add(date'1500-01-01', cast(id * 300 AS int))) day,
  if(id % 4 = 3, null, timestamp_micros((id - 500) * 3600000000 * 24 * 90 + {below_millis})) ts,
  if(id % 4 = 3, null, timestamp_millis((id - 300) * 3600000 * 24)) tm,
  if(id % 4 = 3, null, cast(timestamp_micros((id - 300) * 3600000007) AS timestamp_ntz)) nt,
  if(id % 6 = 5, null, named_struct('a', cast(if(id % 2 = 0, 'NaN', '-0.0') AS double), 't', concat('t', id % 3))) st,
  if(id % 6 = 4, null, array(cast(id AS int), null)) li, if(id % 6 = 3, null, array(named_struct('q', id), null)) ls,
  if(id % 6 = 2, null, map('m', cast(id AS double), 'n', null)) mp
FROM range({rows})
"""


def rows(spark: SparkSession, count: int, *, below_millis: int = 7) -> DataFrame:
    """`count` rows with these columns and the meta columns. `below_millis`: microseconds of every timestamp `ts`."""
    meta = ", ".join(f"'{value}' {name}" for name, value in zip(META, "abcde", strict=True))
    return spark.sql(_ROWS.format(meta=meta, rows=count, below_millis=below_millis))


CONDITIONS = (
    "x = 0.0D",
    "x > 1.5D",
    "NOT (x <= cast('Infinity' AS double))",
    "x IN (0.0D, 12.5D)",
    "f = cast('NaN' AS float) OR f < -0.0",
    "st.a = 0 OR st.a > 1",
    "tm < timestamp_micros(-86400000000 + 500)",
    "tm != timestamp_micros(500) AND tm <= timestamp_micros(500)",
    "ts >= timestamp_micros(7) AND day < date'1582-10-15'",
    "nt > timestamp_ntz'1970-01-01 00:00:00' AND s LIKE 'tëxt3%'",
    "d9 > 10.5 AND d18 <= 300.0625 AND d38 IS NOT NULL",
    "b = encode('b2', 'utf-8') OR li[0] > 890 OR mp['m'] = 896",
    "l <=> null AND i != -495 AND z",
)
"""Filters that Spark compares with statistics and dictionaries where it may."""

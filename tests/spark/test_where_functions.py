"""Conditions of `where` against Spark: the same text is true, false and null for the same rows, in every mode."""

from __future__ import annotations

import contextlib
import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.proto.errors import ConfigurationError
from penstock.reader.split.filter import evaluate
from penstock.table.predicate.parse import parse_predicate
from tests.spark.where_conditions import Conditions

pytestmark = pytest.mark.spark

UTC = datetime.UTC
TEXTS = [
    *("", "a", " a ", "\ta", "Straße", "ΣΑΣ", "İ", "ŉ", "ǆ", "😀b", "a\nb", "a_b", "a%b", "a\\b", "é", "e\u0301", "ﬁ"),
    *("aXbXc", "ababab", "-2", "0.29", "true"),
]
NUMBERS = [-0.0, 0.0, 0.1, -1.5, 2.5, 1e300, math.inf, -math.inf, math.nan]
INSTANTS = [
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime.datetime(2026, 2, 28, 23, 0, tzinfo=UTC),
    datetime.datetime(1900, 3, 1, tzinfo=UTC),
    datetime.datetime(9999, 12, 31, 23, tzinfo=UTC),
]
ROWS: list[dict[str, Any]] = [
    {
        "s": TEXTS[number],
        "i": (-2, 0, 1, 2**31 - 1)[number % 4],
        "n": (-(2**63) + 1, 2**53 + 1, 0, 7)[number % 4],
        "x": NUMBERS[number % len(NUMBERS)],
        "f": NUMBERS[(number + 3) % len(NUMBERS)] if number % 9 != 2 else 0.1,
        "d": Decimal(("-1.00", "0.01", "2.50", "0.29", "12345678.90")[number % 5]),
        "b": number % 2 == 0,
        "day": INSTANTS[(number + 1) % 4].date(),
        "at": INSTANTS[number % 4],
        "local": INSTANTS[(number + 2) % 4].replace(tzinfo=None),
        "raw": (b"", b"a", b"\xff\x00")[number % 3],
    }
    for number in range(len(TEXTS))
] + [dict.fromkeys(("s", "i", "n", "x", "f", "d", "b", "day", "at", "local", "raw"))]
SCHEMA = pa.schema(
    [
        ("s", pa.string()),
        ("i", pa.int32()),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("d", pa.decimal128(10, 2)),
        ("b", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("raw", pa.binary()),
    ]
)
SPARK_SCHEMA = (
    "s string, i int, n bigint, x double, f float, d decimal(10, 2), b boolean, day date, at timestamp, "
    "local timestamp_ntz, raw binary"
)
PATTERNS = [
    "%",
    "",
    "a",
    "a%",
    "%a",
    "%a%",
    "_",
    "__",
    "_b%",
    "%X%X%",
    "%%b",
    r"a\\_b",
    r"a\\%b",
    r"a\\\\b",
    "%ß_",
    "😀_",
    "%\n%",
]
CONDITIONS = [
    *(f"s {word} '{pattern}'" for pattern in PATTERNS for word in ("LIKE", "NOT LIKE")),
    *(f"s ILIKE '{pattern}'" for pattern in ("A%", "%x%", "σα_", "STRASSE", "straß_")),
    "s LIKE 'a!_b' ESCAPE '!'",
    "s NOT LIKE 'a!%!!%' ESCAPE '!'",
    *(f"upper(s) = '{text.upper()}'" for text in ("Straße", "ΣΑΣ", "ŉ", "ǆ", "ﬁ", "a")),
    *(f"lower(s) = '{text.lower()}'" for text in ("Straße", "ΣΑΣ", "İ", "ǆ", "aXbXc")),
    *(f"length(s) {op} {size}" for op in ("=", "<", ">=") for size in (0, 1, 2, 3)),
    "length(raw) = 2",
    *(f"{trim}(s) = '{text}'" for trim in ("trim", "ltrim", "rtrim") for text in ("a", " a", "a ", "")),
    *(
        f"substring(s, {at}{size}) = '{text}'"
        for at in (-7, -3, -2, -1, 0, 1, 2, 9)
        for size in ("", ", -1", ", 0", ", 1", ", 2", ", 9")
        for text in ("", "a", "b", "ße")
    ),
    "concat(s, 'x', s) = 'axa'",
    "s || '' || s = 'éé'",
    "concat(s, cast(i as string)) = 'a0'",
    "startswith(s, 'a')",
    "endswith(s, 'b')",
    "contains(s, '_')",
    "contains(s, '')",
    "coalesce(s, 'none') = 'none'",
    "coalesce(i, 7) = 7",
    "coalesce(x, 0.5) = 0.5",
    "coalesce(d, 0) = 0",
    "coalesce(day, DATE '2000-01-01') = DATE '2000-01-01'",
    "nvl(b, TRUE)",
    "abs(i) = 2",
    "abs(n) = 9223372036854775807",
    "abs(x) > 1.0D",
    "abs(f) = 0",
    "abs(d) = 1",
    *(f"{part}({column}) = {value}" for part, value in (("year", 9999), ("year", 1969), ("month", 2), ("day", 31))
      for column in ("day", "at", "local")),
    "date(at) = DATE '1969-12-31'",
    "date(local) = DATE '2026-02-28'",
    "to_date(at) < DATE '1970-01-01'",
    "cast(at as date) = DATE '9999-12-31'",
    "cast(i as bigint) = 1L",
    "i::bigint > 0",
    "try_cast(i as double) = 2147483647D",
    "cast(n as double) = 9007199254740992D",
    "cast(n as float) = 9007199254740992F",
    "cast(i as float) = 2147483648F",
    "cast(x as float) = 0.1F",
    "cast(f as double) = 0.1F",
    "cast(d as double) = 0.29",
    "cast(d as double) = 12345678.9D",
    "cast(d as decimal(12, 4)) = 2.5",
    "cast(i as decimal(12, 2)) = -2",
    "cast(i as string) = '-2'",
    "cast(d as string) = '0.29'",
    "cast(d as string) = '2.50'",
    "cast(b as string) = 'true'",
    "cast(b as int) = 1",
    "cast(s as string) = 'a'",
    *(f"d {op} {value}" for op in ("=", "<", "<=", ">", ">=", "!=") for value in ("0.29D", "2.5D", "-1e10D", "0.295D")),
    *(f"x {op} CAST('{sign}Infinity' AS DOUBLE)" for op in ("=", "<", "<=", ">", ">=", "!=") for sign in ("", "-")),
    "d IN (0.29D, 2.5D)",
    "i = 1L",
    "x = 0.1D",
    "f = 0.1F",
    "d = 0.29BD",
    "raw = X'FF00'",
    "raw > X'61'",
    "isnan(x)",
    "isnan(f) OR i = 0",
    "NOT isnan(x)",
    "x > 1 AND NOT isnan(x)",
    "(i) = 1",
    "upper(s) IN ('A', 'AB')",
    "length(s) BETWEEN 1 AND 2",
    "upper(s) IS NULL",
    "coalesce(s, s) IS NOT NULL",
]  # fmt: skip


def possible(seed: int, count: int) -> list[str]:
    """Random conditions that `where` has."""
    source, texts = Conditions(seed), []
    while len(texts) < count:
        text = source.condition()
        with contextlib.suppress(ConfigurationError):
            parse_predicate(text, SCHEMA)
            texts.append(text)
    return texts


def answers_of_spark(spark: Any, ansi: str, conditions: list[str]) -> dict[str, list[bool | None]]:
    from pyspark.sql import functions as F

    rows = [(number, *row.values()) for number, row in enumerate(ROWS)]
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        frame = spark.createDataFrame(rows, f"row int, {SPARK_SCHEMA}").coalesce(1)
        collected = frame.select("row", *[F.expr(text).alias(f"c{n}") for n, text in enumerate(conditions)]).collect()
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)
    collected.sort(key=lambda row: row["row"])
    return {text: [row[f"c{number}"] for row in collected] for number, text in enumerate(conditions)}


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("conditions", [CONDITIONS, possible(1, 150)], ids=["chosen", "random"])
def test_conditions_have_the_answers_of_spark(spark: Any, ansi: str, conditions: list[str]) -> None:
    batch = pa.RecordBatch.from_pylist(ROWS, SCHEMA)
    answers = answers_of_spark(spark, ansi, conditions)

    def same(text: str, answer: list[bool | None]) -> bool:
        return evaluate(parse_predicate(text, SCHEMA), batch).to_pylist() == answer

    assert [text for text in conditions if not same(text, answers[text])] == []
    decided = [text for text, answer in answers.items() if {True, False} <= set(answer)]
    assert len(decided) > len(conditions) // 3, "a condition with the same answer for every row compares little"
    assert not any(same(f"NOT ({text})", answers[text]) for text in decided)

"""Reads from a Spark session what the meaning of a condition depends on."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final

from penstock.engine.spark.query.handed_down import SessionRules, wall_clock_us

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UTC: Final = frozenset({"UTC", "Z", "GMT", "Etc/UTC", "Etc/GMT", "+00:00", "UTC+00:00"})
_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)")
_BINARY: Final = "UTF8_BINARY"


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is a client of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def rules_of(spark: SparkSession) -> SessionRules:
    """The rules of the session, as its configuration is now."""

    def switch(name: str, default: str) -> bool:
        return (spark.conf.get(name, default) or default).lower() == "true"

    collation = spark.conf.get("spark.sql.session.collation.default", _BINARY) or _BINARY
    return SessionRules(
        case_sensitive=switch("spark.sql.caseSensitive", "false"),
        binary_texts=collation.upper() == _BINARY,
        dates_as_texts=switch("spark.sql.legacy.typeCoercion.datetimeToString.enabled", "false"),
        timestamps_have_zone=spark.conf.get("spark.sql.timestampType", "TIMESTAMP_LTZ") == "TIMESTAMP_LTZ",
        quoted_names=switch("spark.sql.ansi.doubleQuotedIdentifiers", "false"),
        pattern_names=switch("spark.sql.parser.quotedRegexColumnNames", "false"),
        reserved_words=switch("spark.sql.ansi.enforceReservedKeywords", "false"),
        instant_of=_no_instant if is_connect(spark) else _instants(spark),
    )


def _no_instant(_: str) -> int | None:
    """A Connect client's query is analyzed again at each action, in the time zone that the session then has."""
    return None


def _instants(spark: SparkSession) -> Callable[[str], int | None]:
    """The instants of texts in the session's time zone. Spark converts those of regions, with its own zone rules."""
    zone = spark.conf.get("spark.sql.session.timeZone") or ""
    offset = _OFFSET.fullmatch(zone)

    @cache
    def instant(text: str) -> int | None:
        wall = wall_clock_us(text)
        if wall is None:
            return None
        if zone in _UTC:
            return wall
        if offset is not None:
            shift = (int(offset[2]) * 60 + int(offset[3])) * 60_000_000
            return wall - shift if offset[1] == "+" else wall + shift
        row = spark.sql(f"SELECT unix_micros(TIMESTAMP_LTZ '{text}')").first()
        return None if row is None else int(row[0])

    return instant

"""Values of Hudi's, Flink's and hudi-rs's options as values of Penstock's.

A function is called with the name and the value of the option, and returns the value of Penstock's option; None for
what Penstock always does. ConfigurationError, with Penstock's option to use, if no value means exactly the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from penstock.proto.errors import ConfigurationError

_INSTANT: Final = r"\d{14}|\d{17}"


def query_of(*kinds: str) -> Callable[[str, str], str]:
    """The query of this name; one of `kinds`."""

    def convert(name: str, value: str) -> str:
        if value not in kinds:
            raise ConfigurationError(
                f"option {name}: got {value[:80]!r}, expected one of {', '.join(kinds)}; or use Penstock's option query"
            )
        return value

    return convert


def spark_bound(ours: str) -> Callable[[str, str], str]:
    """A bound of Spark's incremental read. Hudi compares it as text, so only whole instants mean the same here."""

    def convert(name: str, value: str) -> str:
        if re.fullmatch(r"0{1,13}", value):
            return "earliest"
        if not re.fullmatch(_INSTANT, value):
            raise ConfigurationError(
                f"option {name}: got {value[:80]!r}, which Hudi compares with instants as text; use Penstock's option "
                f"{ours} instead (an instant of 14 or 17 digits, an ISO time, or `earliest` / `latest`)"
            )
        return value

    return convert


def as_of(name: str, value: str) -> str:
    """As Hudi's `formatQueryInstant`: the timeline's wall clock; a time in seconds means its last millisecond."""
    if re.fullmatch(r"\d{10}|\d{13}|\d{14}|\d{17}", value):
        return value
    match = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{3}))?)?", value)
    if match is None:
        raise ConfigurationError(
            f"option {name}: got {value[:80]!r}, expected yyyyMMddHHmmss[SSS], yyyy-MM-dd or "
            "yyyy-MM-dd HH:mm:ss[.SSS]; Penstock's option asOf also accepts ISO times with a zone"
        )
    year, month, day, hour, minute, second, milli = match.groups()
    clock = "000000000" if hour is None else f"{hour}{minute}{second}{milli or '999'}"
    return f"{year}{month}{day}{clock}"


def whole_instant(ours: str) -> Callable[[str, str], str]:
    """An instant of 14 or 17 digits."""

    def convert(name: str, value: str) -> str:
        if not re.fullmatch(_INSTANT, value):
            raise ConfigurationError(
                f"option {name}: got {value[:80]!r}, expected an instant of 14 or 17 digits; Penstock's option {ours} "
                "also accepts ISO times"
            )
        return value

    return convert


def read_optimized(name: str, value: str) -> str | None:
    """The query of a switch: `read_optimized` if it is on, else what other options say."""
    if value.lower() not in ("true", "false"):
        raise ConfigurationError(
            f"option {name}: got {value[:80]!r}, expected true or false; or use Penstock's option query"
        )
    return "read_optimized" if value.lower() == "true" else None


def start_offset(name: str, value: str) -> str:
    """`earliest` or `latest`."""
    if value not in ("earliest", "latest"):
        raise ConfigurationError(
            f"option {name}: got {value[:80]!r}; only earliest and latest have the same meaning in Penstock; use "
            "Penstock's option after (exclusive, an order key) instead"
        )
    return value


def same(_name: str, value: str) -> str:
    """The value itself, which Penstock's option checks."""
    return value


def switch(name: str, value: str) -> str:
    """`on` or `off` of true or false."""
    if value.strip().lower() not in ("true", "false"):
        raise ConfigurationError(f"option {name}: got {value[:80]!r}, expected true or false")
    return "on" if value.strip().lower() == "true" else "off"


def opposite_switch(name: str, value: str) -> str:
    """`off` or `on` of true or false."""
    return "off" if switch(name, value) == "on" else "on"


def flink_start(name: str, value: str) -> str:
    """The start of a range of Flink, which is inclusive, as an exclusive bound.

    Instants have 14 or 17 digits and compare as text: the bound is the last text below the instant that one can have.
    Source: `IncrementalInputSplits` (CLOSED_CLOSED).
    """
    if value == "earliest" or re.fullmatch(r"0{1,17}", value):
        return "earliest"
    instant = _flink_instant(name, value, "after")
    if len(instant) == 14:
        return f"{int(instant) - 1:014}999"
    return instant[:14] if instant.endswith("000") else f"{int(instant) - 1:017}"


def flink_end(name: str, value: str) -> str:
    """The end of a range of Flink: inclusive, as here."""
    return _flink_instant(name, value, "upto")


def _flink_instant(name: str, value: str, ours: str) -> str:
    if not re.fullmatch(_INSTANT, value):
        raise ConfigurationError(
            f"option {name}: got {value[:80]!r}, which Flink compares with instants as text; use Penstock's option "
            f"{ours} instead (an order key of 14 or 17 digits, an ISO time, or `earliest` / `latest`)"
        )
    return value


def commits_limit(name: str, value: str) -> str:
    """A number of commits, at least 1."""
    if not re.fullmatch(r"0*[1-9]\d{0,9}", value.strip()):
        raise ConfigurationError(
            f"option {name}: got {value[:80]!r}, expected a number of commits, at least 1; or use Penstock's option "
            "maxCommitsPerTrigger"
        )
    return value.strip()


def view_type(name: str, value: str) -> str:
    """The query of a view type, which is the name of query types in the first releases of Hudi."""
    queries = {"read_optimized": "read_optimized", "realtime": "snapshot", "incremental": "incremental"}
    if value not in queries:
        raise ConfigurationError(
            f"option {name}: got {value[:80]!r}, expected one of {', '.join(queries)}; or use Penstock's option query"
        )
    return queries[value]

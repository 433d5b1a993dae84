"""Partition paths of times: the text of a moment in a pattern, as Hudi's key generators TIMESTAMP and CUSTOM make it.

Source: Hudi `TimestampBasedAvroKeyGenerator`, `HoodieDateTimeParser`; the patterns are those of Joda-Time. Pure.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.proto.errors import ConfigurationError, SchemaMismatch
from penstock.table.timeline.zones import named_zone

PREFIX: Final = "hoodie.keygen.timebased."
_OLD_PREFIX: Final = "hoodie.deltastreamer.keygen.timebased."
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_UNITS: Final = {
    "UNIX_TIMESTAMP": 1_000_000,
    "EPOCHMILLISECONDS": 1_000,
    "EPOCHMICROSECONDS": 1,
}
"""Type -> microseconds of its unit."""
_SCALARS: Final = {
    "DAYS": 86_400_000_000,
    "HOURS": 3_600_000_000,
    "MINUTES": 60_000_000,
    "SECONDS": 1_000_000,
    "MILLISECONDS": 1_000,
    "MICROSECONDS": 1,
}
_DATE_STRING: Final = "DATE_STRING"
_TOKEN: Final = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']")
_WIDTHS: Final = {"yyyy": 4, "MM": 2, "dd": 2, "HH": 2, "mm": 2, "ss": 2, "SSS": 3}
_DAY_MS: Final = 86_400_000
_STEPS_MS: Final = {"HH": 3_600_000, "mm": 60_000, "ss": 1_000, "SSS": 1}
"""Field of a pattern -> milliseconds in which its text stays."""
_QUARTER_MS: Final = 900_000
_OFFSET: Final = re.compile(r"GMT([+-])(\d{1,2}):?(\d{2})?")
_FIRST_DAY_MS: Final = -62_135_510_400_000
_LAST_DAY_MS: Final = 253_402_214_400_000
"""The second day of year 1, and the last one of year 9999: each zone's clock shows these years in between."""
_OF_NULL: Final = 1
"""The value of a null: a number, or text of the moment of so many milliseconds (`getDefaultPartitionVal`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePartitions:
    """How the values of a column become partition paths."""

    unit_us: int
    """Microseconds of a number's unit; 0 for text."""
    reads: tuple[str, ...]
    """The pattern of text, as tokens; () for numbers."""
    reads_in: datetime.tzinfo
    """The zone of text."""
    writes: tuple[str, ...]
    """The pattern of a path, as tokens."""
    writes_in: datetime.tzinfo
    """The zone of a path."""

    def coarse(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """The column with fewer distinct values: numbers with the same path are rounded down to one of them. Other
        columns, and those with a number that has no path, are unchanged."""
        step_ms = min((_STEPS_MS.get(token, _DAY_MS) for token in self.writes), default=_DAY_MS)
        if not self.unit_us or step_ms * 1000 <= self.unit_us or not pa.types.is_integer(column.type):
            return column
        whole = column.cast(pa.int64()).combine_chunks()
        numbers = whole.fill_null(0).to_numpy(zero_copy_only=False)
        first, last = (bound * 1000 // self.unit_us for bound in (_FIRST_DAY_MS, _LAST_DAY_MS))
        if ((numbers <= first) | (numbers >= last)).any():
            return column
        if self.unit_us == 1:  # Java's conversion to milliseconds drops the rest, also of negative numbers
            moments = numbers // 1000 + ((numbers < 0) & (numbers % 1000 != 0))
        else:
            moments = numbers * (self.unit_us // 1000)
        rounded = _rounded(moments, step_ms, self.writes_in) * 1000
        if (rounded % self.unit_us).any():
            return column
        return pa.chunked_array(
            [pa.array(rounded // self.unit_us, mask=whole.is_null().to_numpy(zero_copy_only=False))]
        )

    def text(self, value: object, where: str) -> str:
        """The path of a value. SchemaMismatch, beginning with `where`, for a value without one."""
        if value is None and self.reads:
            first = _formatted(_moment_of_ms(_OF_NULL, where).astimezone(self.reads_in), self.reads)
            return self.text(first, where)
        if value is None:
            return self.text(_OF_NULL, where)
        if self.unit_us and isinstance(value, int) and not isinstance(value, bool):
            micros = value * self.unit_us
            milliseconds = -(-micros // 1000) if micros < 0 else micros // 1000  # Java's conversion drops the rest
            return _formatted(_moment_of_ms(milliseconds, where).astimezone(self.writes_in), self.writes)
        if self.reads and isinstance(value, str):
            return _formatted(self._parsed(value, where).astimezone(self.writes_in), self.writes)
        raise SchemaMismatch(
            f"{where}: got a value of type {type(value).__name__}, expected "
            f"{'text' if self.reads else 'a whole number'}, as the table's time partitions say"
        )

    def _parsed(self, text: str, where: str) -> datetime.datetime:
        parts = {"yyyy": 1970, "MM": 1, "dd": 1, "HH": 0, "mm": 0, "ss": 0, "SSS": 0}
        rest = text
        for token in self.reads:
            width = _WIDTHS.get(token)
            piece = rest[: width or len(token)]
            is_number = piece.isascii() and piece.isdigit() and len(piece) == width
            if not (is_number if width else piece == token):
                raise SchemaMismatch(
                    f"{where}: got {text[:80]!r}, expected text in the form {''.join(self.reads)}; nothing was written"
                )
            if width:
                parts[token] = int(piece)
            rest = rest[len(piece) :]
        year, month, day, hour, minute, second, millisecond = parts.values()
        try:
            if rest:
                raise ValueError("text follows")
            microsecond = millisecond * 1000
            moment = datetime.datetime(year, month, day, hour, minute, second, microsecond, tzinfo=self.reads_in)
            again = moment.astimezone(datetime.UTC).astimezone(self.reads_in)
        except (ValueError, OverflowError) as error:
            raise SchemaMismatch(f"{where}: got {text[:80]!r}, which is no time: {error}") from None
        if again.replace(tzinfo=None) != moment.replace(tzinfo=None):
            raise SchemaMismatch(f"{where}: got {text[:80]!r}, a time that the clocks of its zone skip")
        return moment


def time_partitions(options: Mapping[str, str], where: str) -> TimePartitions:
    """The partitions of `hoodie.keygen.timebased.*` among the options.

    ConfigurationError, beginning with `where`, for options that are missing or not supported.
    """

    def option(name: str, default: str = "") -> str:
        return recorded_option(options, name, default)

    kind = option("timestamp.type").upper()
    unit = (
        _SCALARS.get(option("timestamp.scalar.time.unit", "SECONDS").upper()) if kind == "SCALAR" else _UNITS.get(kind)
    )
    if unit is None and kind != _DATE_STRING:
        raise ConfigurationError(
            f"{where}: {PREFIX}timestamp.type is {kind[:60] or '(none)'!r}: expected {', '.join(_UNITS)}, SCALAR with "
            f"{PREFIX}timestamp.scalar.time.unit, or DATE_STRING"
        )
    both = option("timezone")
    reads: tuple[str, ...] = ()
    reads_in: datetime.tzinfo = datetime.UTC
    if kind == _DATE_STRING:
        reads = _pattern(option("input.dateformat"), f"{where}: {PREFIX}input.dateformat")
        zone = both or option("input.timezone")
        if not zone:
            raise ConfigurationError(
                f"{where}: {PREFIX}input.timezone is not set: Hudi would take the zone of its writer's JVM; give the "
                "zone of the text, such as UTC"
            )
        reads_in = _zone(zone, f"{where}: {PREFIX}input.timezone")
    return TimePartitions(
        unit_us=unit or 0,
        reads=reads,
        reads_in=reads_in,
        writes=_pattern(option("output.dateformat"), f"{where}: {PREFIX}output.dateformat"),
        writes_in=_zone(both or option("output.timezone", "GMT"), f"{where}: {PREFIX}output.timezone"),
    )


def recorded_option(options: Mapping[str, str], name: str, default: str = "") -> str:
    """The value of `hoodie.keygen.timebased.<name>`, also under the prefix of releases before 0.14."""
    return options.get(PREFIX + name, options.get(_OLD_PREFIX + name, default)).strip()


def _pattern(text: str, what: str) -> tuple[str, ...]:
    """The tokens of a Joda pattern: fields of fixed width, and literal text."""
    tokens: list[str] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        token = match[0] if match else ""
        if not token or (token[0].isalpha() and token not in _WIDTHS):
            break
        if token[0] == "'":
            token = "'" if token == "''" else token[1:-1].replace("''", "'")
        tokens.append(token)
        position = match.end() if match else position
    if not tokens or position < len(text) or any(token in _WIDTHS for token in _literals(text)):
        raise ConfigurationError(
            f"{what} is {text[:80]!r}: expected {', '.join(_WIDTHS)} and punctuation, such as yyyy/MM/dd"
        )
    return tuple(tokens)


def _literals(text: str) -> list[str]:
    """The quoted parts of a pattern."""
    return [part[1:-1] for part in re.findall(r"'(?:[^']|'')*'", text)]


def _zone(name: str, what: str) -> datetime.tzinfo:
    """The zone of a Java name. ConfigurationError for a name that Java would take for GMT."""
    if name.upper() in ("GMT", "UTC", "Z"):
        return datetime.UTC
    if match := _OFFSET.fullmatch(name):
        offset = datetime.timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        if offset < datetime.timedelta(hours=24):
            return datetime.timezone(-offset if match[1] == "-" else offset)
    try:
        return named_zone(name)
    except ConfigurationError:
        raise ConfigurationError(
            f"{what} is {name[:80]!r}: expected a zone such as UTC, Asia/Tokyo or GMT+8:00"
        ) from None


def _rounded(moments: np.ndarray, step_ms: int, zone: datetime.tzinfo) -> np.ndarray:
    """Milliseconds after 1970, rounded down to a step of the zone's clock. Around its changes they stay."""
    if isinstance(zone, datetime.timezone):
        shift = zone.utcoffset(None) // datetime.timedelta(milliseconds=1)
        return np.asarray((moments + shift) // step_ms * step_ms - shift)
    step_ms = min(step_ms, _QUARTER_MS)
    blocks, place = np.unique(moments // step_ms, return_inverse=True)
    is_even = np.array([_is_even(block * step_ms, step_ms, zone) for block in blocks.tolist()], bool)
    return np.where(is_even[place], blocks[place] * step_ms, moments)


def _is_even(first_ms: int, step_ms: int, zone: datetime.tzinfo) -> bool:
    """Whether the clock of the zone neither changes in a step nor begins another one."""
    offsets = {
        (_EPOCH + datetime.timedelta(milliseconds=moment)).astimezone(zone).utcoffset()
        for moment in (first_ms, first_ms + step_ms - 1)
    }
    offset = offsets.pop()
    return not offsets and offset is not None and not offset % datetime.timedelta(milliseconds=step_ms)


def _moment_of_ms(milliseconds: int, where: str) -> datetime.datetime:
    if not _FIRST_DAY_MS <= milliseconds < _LAST_DAY_MS:
        raise SchemaMismatch(f"{where}: {milliseconds} ms after 1970 is not in the years 1 to 9999")
    return _EPOCH + datetime.timedelta(milliseconds=milliseconds)


def _formatted(moment: datetime.datetime, tokens: tuple[str, ...]) -> str:
    values = {
        "yyyy": f"{moment.year:04d}",
        "MM": f"{moment.month:02d}",
        "dd": f"{moment.day:02d}",
        "HH": f"{moment.hour:02d}",
        "mm": f"{moment.minute:02d}",
        "ss": f"{moment.second:02d}",
        "SSS": f"{moment.microsecond // 1000:03d}",
    }
    return "".join(values.get(token, token) for token in tokens)

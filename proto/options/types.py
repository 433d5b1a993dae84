"""The types of option values. Each parses a caller's value, or raises ConfigurationError with what it expected."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.access import checked_address
from penstock.proto.value_classes import dataclass

MAX_TEXT: Final = 65_536
"""The longest value of an option, in characters; filters are the longest values."""
MAX_DURATION_US: Final = 10_000 * 86_400_000_000

MAX_SETTINGS: Final = 500

_SETTING: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,199}")
_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", flags=re.ASCII)
_UNITS_US: Final = {
    unit: microseconds
    for units, microseconds in (
        (("us", "µs", "microsecond"), 1),
        (("ms", "millisecond", "milli"), 1_000),
        (("s", "sec", "second"), 1_000_000),
        (("m", "min", "minute"), 60_000_000),
        (("h", "hour"), 3_600_000_000),
        (("d", "day"), 86_400_000_000),
    )
    for unit in (*units, *(f"{word}s" for word in units if len(word) > 2))
}
_PART: Final = re.compile(r"(\d{1,18})\s*([a-zµ]+)\s*", flags=re.IGNORECASE)
_ISO_DURATION: Final = re.compile(
    r"P(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:\.(\d{1,6}))?S)?)?",
    flags=re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Text:
    """Any text."""

    form: str = "text"
    """The type's name in the documentation."""

    def parse(self, name: str, value: object) -> str:
        """The text itself."""
        return _text(name, value, self.form)


@dataclass(frozen=True, slots=True)
class Time:
    """A time of a timeline: text, or in Python a `datetime` or a `date`.

    A `datetime` is that millisecond; without a time zone it is in the timeline's zone. A `date` is that day as a whole,
    so its last millisecond, in the timeline's zone: `upto` includes the day, `after` begins after it, and ranges cut at
    days neither lose nor repeat an instant.
    """

    form: str = "time"
    """The type's name in the documentation."""

    def parse(self, name: str, value: object) -> str:
        """The text of the time."""
        if not isinstance(value, datetime.date):
            return _text(name, value, self.form)
        try:
            if not isinstance(value, datetime.datetime):
                return f"{value.isoformat()}T23:59:59.999"
            moment = value if value.tzinfo is None else value.astimezone(datetime.UTC)
            text = moment.replace(tzinfo=None).isoformat(timespec="milliseconds")[: len("YYYY-MM-DDTHH:MM:SS.mmm")]
            return text if value.tzinfo is None else f"{text}Z"
        except (ValueError, OverflowError, TypeError) as error:
            raise ConfigurationError(f"option {name}: got {value!r:.80}, expected a time in UTC ({error})") from None


@dataclass(frozen=True, slots=True)
class Address:
    """The address of an enumerator's server (`penstock.proto.model.access`)."""

    form: str = "HOST:PORT"
    """The type's name in the documentation."""

    def parse(self, name: str, value: object) -> str:
        """The address, or ConfigurationError."""
        try:
            return checked_address(_text(name, value, self.form))
        except ConfigurationError as error:
            raise ConfigurationError(f"option {name}: {error}") from error


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number in [least, most]."""

    least: int
    """The lowest value."""
    most: int
    """The highest value."""

    @property
    def form(self) -> str:
        """The type's name in the documentation."""
        return f"whole number, {self.least} to {self.most}"

    def parse(self, name: str, value: object) -> int:
        """The number, from text or int."""
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ConfigurationError(f"option {name}: got {value!r:.80}, expected a {self.form}")
        if isinstance(value, str) and not re.fullmatch(r"[+-]?\d{1,19}", value.strip()):
            raise ConfigurationError(f"option {name}: got {value[:80]!r}, expected a {self.form}")
        number = int(value)
        if not self.least <= number <= self.most:
            raise ConfigurationError(f"option {name}: got {number}, expected a {self.form}")
        return number


@dataclass(frozen=True, slots=True)
class OnOff:
    """A switch: `on` or `off`; `true` and `false` mean the same."""

    form: str = "on \\| off"
    """The type's name in the documentation."""

    def parse(self, name: str, value: object) -> str:
        """`on` or `off`."""
        text = ("on" if value else "off") if isinstance(value, bool) else _text(name, value, "on or off")
        switch = {"on": "on", "true": "on", "off": "off", "false": "off"}.get(text.strip().lower())
        if switch is None:
            raise ConfigurationError(f"option {name}: got {text[:80]!r}, expected on or off")
        return switch


@dataclass(frozen=True, slots=True)
class TrueFalse:
    """`true` or `false`."""

    form: str = "true \\| false"
    """The type's name in the documentation."""

    def parse(self, name: str, value: object) -> bool:
        """The Boolean, from text or bool."""
        boolean = value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).strip().lower())
        if not isinstance(value, bool | str) or boolean is None:
            raise ConfigurationError(f"option {name}: got {value!r:.80}, expected true or false")
        return boolean


@dataclass(frozen=True, slots=True)
class Duration:
    """A duration with its unit, in microseconds."""

    word: str = ""
    """A further accepted value, parsed as None, such as `infinite`."""

    @property
    def form(self) -> str:
        """The type's name in the documentation."""
        return "duration such as `10 minutes`, `30s`, `PT10M`" + (f" \\| {self.word}" if self.word else "")

    def parse(self, name: str, value: object) -> int | None:
        """Microseconds, 0 or more.

        Accepts one number and unit (`500 ms`, `1h`), several (`1h 30m`), and ISO 8601 with days and below. A number
        without a unit is refused.
        """
        text = _text(name, value, "a duration").strip() if not isinstance(value, int) else str(value)
        if self.word and text.lower() == self.word:
            return None
        if re.fullmatch(r"[+-]?\d+(\.\d+)?", text, flags=re.ASCII):
            raise ConfigurationError(
                f"option {name}: got {text[:80]!r}, a number without a unit: say {text[:20]}s, {text[:20]}ms or "
                f"{text[:20]} minutes"
            )
        microseconds = _iso_duration_us(text) if text[:1] in "Pp" else _worded_duration_us(text)
        if microseconds is None or microseconds > MAX_DURATION_US:
            also = f", or {self.word}" if self.word else ""
            raise ConfigurationError(
                f"option {name}: got {text[:80]!r}, expected a duration of at most 10000 days such as 10 minutes, 30s, "
                f"1h, 500 ms or PT10M{also}"
            )
        return microseconds


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a fixed set of words."""

    values: tuple[str, ...]
    """The words, in the order of the documentation."""

    @property
    def form(self) -> str:
        """The type's name in the documentation."""
        return " \\| ".join(self.values)

    def parse(self, name: str, value: object) -> str:
        """One of the values, or ConfigurationError."""
        text = _text(name, value, self.form)
        if text not in self.values:
            suggestion = nearest(text, self.values)
            raise ConfigurationError(
                f"option {name}: got {text[:80]!r}, expected one of {', '.join(self.values)}{suggestion}"
            )
        return text


@dataclass(frozen=True, slots=True)
class Names:
    """Column names: a list separated by commas (spaces around a name are ignored), or a JSON list."""

    form: str = "a,b or a JSON list"
    """The type's name in the documentation."""

    def parse(self, name: str, value: object) -> tuple[str, ...]:
        """The names, in order; an empty tuple means every column."""
        parsed: object = value
        if isinstance(value, str):
            text = _text(name, value, self.form).strip()
            if not text.startswith("["):
                parsed = [part.strip() for part in text.split(",")] if text else []
            else:
                try:
                    parsed = json.loads(text)
                except (ValueError, RecursionError) as error:
                    raise ConfigurationError(f"option {name}: got {text[:80]!r}, expected {self.form}") from error
        if not isinstance(parsed, list | tuple) or not all(isinstance(part, str) and part for part in parsed):
            raise ConfigurationError(f"option {name}: got {value!r:.80}, expected {self.form}, no name empty")
        return tuple(_text(name, part, self.form) for part in parsed)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Settings of a Kafka client by name. Values may be secrets: an error names the setting and shows no value."""

    form: str = "a mapping"
    """The type's name in the documentation."""

    def parse(self, name: str, value: object) -> tuple[tuple[str, str], ...]:
        """(name, value) pairs sorted by name, from a mapping or a JSON object. Numbers and Booleans become text."""
        mapping: object = value
        if isinstance(value, str):
            try:
                mapping = json.loads(value, object_pairs_hook=_unique_pairs) if len(value) <= MAX_TEXT else None
            except (ValueError, RecursionError):
                mapping = None
        if not isinstance(mapping, Mapping) or len(mapping) > MAX_SETTINGS:
            raise ConfigurationError(
                f"option {name}: expected a mapping of at most {MAX_SETTINGS} settings, or a JSON object"
            )
        settings = [(_setting(name, key), _setting_value(name, key, setting)) for key, setting in mapping.items()]
        if len({key for key, _ in settings}) != len(settings):
            raise ConfigurationError(f"option {name}: a setting is there twice")
        return tuple(sorted(settings))


@dataclass(frozen=True, slots=True)
class Functions:
    """Python functions by name, such as those that merge records."""

    form: str = "name=module:function, …"
    """The type's name in the documentation."""

    def parse(self, name: str, value: object) -> tuple[tuple[str, str], ...]:
        """(name, `module:function`) pairs sorted by name, from a mapping or from text. Nothing is imported."""
        given: object = value
        if isinstance(value, str):
            parts = [part.partition("=") for part in _text(name, value, self.form).split(",") if part.strip()]
            given = {key.strip(): target.strip() for key, _, target in parts}
            if len(given) != len(parts):
                raise ConfigurationError(f"option {name}: a name is there twice")
        if not isinstance(given, Mapping) or len(given) > MAX_SETTINGS:
            raise ConfigurationError(
                f"option {name}: got {value!r:.80}, expected a mapping of at most {MAX_SETTINGS} names, or {self.form}"
            )
        pairs = [(_text(name, key, self.form), _text(name, target, self.form)) for key, target in given.items()]
        for key, target in pairs:
            if not key or not _FUNCTION.fullmatch(target):
                raise ConfigurationError(
                    f"option {name}: got {f'{key}={target}'[:200]!r}, expected {self.form}, such as "
                    "com.example.MyPayload=package.module:function"
                )
        return tuple(sorted(pairs))


OptionType = Functions | Text | Time | Address | Number | OnOff | TrueFalse | Duration | Choice | Names | ClientSettings


def _setting(option: str, name: object) -> str:
    lower = name.strip().lower() if isinstance(name, str) else ""
    if not _SETTING.fullmatch(lower):
        raise ConfigurationError(f"option {option}: got a setting named {str(name)[:80]!r}, expected such as a.b.c")
    return lower


def _setting_value(option: str, name: object, value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, int | float) else value
    if not isinstance(text, str) or len(text) > MAX_TEXT or "\x00" in text:
        raise ConfigurationError(
            f"option {option}: setting {name}: expected text of at most {MAX_TEXT} characters and no NUL, got a "
            f"{type(value).__name__}"
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(f"option {option}: setting {name}: expected text in UTF-8") from None
    return text


def _unique_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("duplicate name")
    return mapping


def nearest(name: str, known: Iterable[str]) -> str:
    """`: did you mean X?` for the text of an error, '' if no known name is similar."""
    by_plain = {plain_spelling(candidate): candidate for candidate in known}
    import difflib  # late: for error texts

    close = difflib.get_close_matches(plain_spelling(name), by_plain, n=1, cutoff=0.6)
    return f": did you mean {by_plain[close[0]]}?" if close else ""


def plain_spelling(name: str) -> str:
    """The name in lower case without `-` and `_`: the same for all spellings of an option."""
    return name.lower().replace("-", "").replace("_", "")


def _text(name: str, value: object, form: str) -> str:
    if not isinstance(value, str):
        raise ConfigurationError(f"option {name}: got {value!r:.80}, expected text ({form})")
    if len(value) > MAX_TEXT or "\x00" in value:
        raise ConfigurationError(f"option {name}: {len(value)} characters, expected at most {MAX_TEXT} and no NUL")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(f"option {name}: got {value[:80]!r}, expected text in UTF-8") from None
    return value


def _worded_duration_us(text: str) -> int | None:
    """The microseconds of a sequence of numbers with units; None for any other text."""
    total, at = 0, 0
    while at < len(text):
        part = _PART.match(text, at)
        unit = _UNITS_US.get(part[2].lower()) if part else None
        if part is None or unit is None or not part[1].isascii():
            return None
        total, at = total + int(part[1]) * unit, part.end()
    return total if text else None


def _iso_duration_us(text: str) -> int | None:
    """The microseconds of an ISO 8601 duration (PT1H30M, P2D); None for any other text, and for months and years."""
    match = _ISO_DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, seconds, fraction = (part or "0" for part in match.groups())
    whole_s = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
    return whole_s * 1_000_000 + int(fraction.ljust(6, "0"))

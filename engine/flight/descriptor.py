"""Descriptors of flights: parses a path or a command into the table and the options of a read. Pure."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.engine.requests.where import where_text
from penstock.proto.errors import ConfigurationError
from penstock.proto.options.registry import EntryPoint, ParsedOptions, parse_options

MAX_COMMAND_BYTES: Final = 128 << 10
"""The longest command. A filter, the longest value of an option, has at most 64 Ki characters."""
MAX_TABLE_CHARS: Final = 300
"""The longest name of a table."""

KEYS: Final = (
    "query",
    "cdcFormat",
    "after",
    "upto",
    "asOf",
    "columns",
    "meta",
    "where",
    "limit",
    "splitBytes",
    "batchRows",
    "completionTime",
    "columnsByName",
    "timelineTimezone",
    "deleteField",
    "deleteMarker",
    "onCorrupt",
    "metadata",
    "recordIndex",
)
"""The keys of a command beside `table`: options of a read that a client chooses (docs/reference/options.md)."""


@dataclass(frozen=True, slots=True)
class FlightRequest:
    """The read that a descriptor describes."""

    table: str
    """The name of the table."""
    options: Mapping[str, object]
    """The options by name, as the client gave them."""

    def parsed(self, server: Mapping[str, object]) -> ParsedOptions:
        """The options, checked and typed, with those of the server's own `server`. ConfigurationError names the key.

        The environment of the server's process has no effect: it is not the client's.
        """
        return parse_options({**self.options, **server}, entry_point=EntryPoint.ARROW, environment={})


def request_of_path(path: Sequence[bytes]) -> FlightRequest:
    """The request of `FlightDescriptor.for_path(NAME)`: a snapshot of the table. ConfigurationError: not one name."""
    if len(path) != 1:
        raise ConfigurationError(f"flight descriptor: got a path of {len(path)} parts, expected one: a table's name")
    try:
        name = path[0][: 4 * MAX_TABLE_CHARS + 1].decode()
    except UnicodeDecodeError:
        raise ConfigurationError("flight descriptor: the path is not UTF-8: expected a table's name") from None
    return FlightRequest(_checked_table(name), {})


def request_of_command(command: bytes) -> FlightRequest:
    """The request of `FlightDescriptor.for_command(JSON)`: an object with `table` and any of KEYS. A key with null
    counts as not given. ConfigurationError names what is wrong; for an unknown key also the nearest one."""
    if len(command) > MAX_COMMAND_BYTES:
        raise ConfigurationError(
            f"flight descriptor: got a command of {len(command)} bytes, expected at most {MAX_COMMAND_BYTES}"
        )
    try:
        given = json.loads(command, object_pairs_hook=_without_repeated_keys)
    except (ValueError, RecursionError) as error:
        text = str(error)[:200]
        raise ConfigurationError(f"flight descriptor: the command is not a JSON object in UTF-8: {text}") from None
    if not isinstance(given, dict):
        raise ConfigurationError(
            f"flight descriptor: got JSON of type {type(given).__name__}, expected an object such as "
            '{"table": "orders"}'
        )
    for key in given:
        if key != "table" and key not in KEYS:
            near = difflib.get_close_matches(key[:80], ("table", *KEYS), n=1)
            hint = f": did you mean {near[0]!r}?" if near else f": expected table, {', '.join(KEYS)}"
            raise ConfigurationError(f"flight descriptor: unknown key {key[:80]!r}{hint}")
    table = given.pop("table", None)
    if not isinstance(table, str):
        raise ConfigurationError("flight descriptor: the key `table` is missing or no text: expected a table's name")
    options = {key: _checked_value(key, value) for key, value in given.items() if value is not None}
    return FlightRequest(_checked_table(table), options)


def _checked_table(name: str) -> str:
    if not name or len(name) > MAX_TABLE_CHARS:
        got = f"{len(name)} characters" if name else "nothing"
        raise ConfigurationError(
            f"flight descriptor: table: got {got}, expected a name of 1 to {MAX_TABLE_CHARS} characters"
        )
    return name


def _checked_value(key: str, value: object) -> object:
    """The value in the type that the parser of options expects: a list of names as a tuple, a filter as text."""
    if key == "where" and isinstance(value, list):
        try:
            return where_text([_condition(part) for part in value])
        except RecursionError:
            raise ConfigurationError("flight descriptor: key where: the list is nested too deeply") from None
    if isinstance(value, list):
        if not all(isinstance(item, str) for item in value):
            raise ConfigurationError(f"flight descriptor: key {key}: got a list with other values, expected texts only")
        return tuple(value)
    if not isinstance(value, str | int):
        raise ConfigurationError(
            f"flight descriptor: key {key}: got JSON of type {type(value).__name__}, expected text, a whole number, "
            "true, false or a list of names"
        )
    return value


def _condition(part: object) -> Any:
    """A condition [column, operator, value] as a tuple, or a list of them; anything else as it is."""
    match part:
        case [str() as column, str() as relation, value]:
            return column, relation, value
        case [[*column], str() as relation, value]:
            return tuple(column), relation, value
        case [*conditions]:
            return [_condition(one) if isinstance(one, list) and len(one) == 3 else one for one in conditions]
    return part


def _without_repeated_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        repeated, _ = Counter(keys).most_common(1)[0]
        raise ValueError(f"key {repeated[:80]!r} is given twice")
    return dict(pairs)

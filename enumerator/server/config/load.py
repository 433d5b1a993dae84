"""The configuration file of `penstock serve` (TOML), the environment and flags over it: `Settings`.

pydantic checks the types, by the fields of `settings` themselves, and finds unknown keys: nesting, tables of tables and
the place of an error are its job, not ours. It is part of the extra `server`, and needed for a file or a variable only;
flags alone work without. Ranges, and what must go together, are checked by the values themselves.
"""

from __future__ import annotations

import difflib
import pathlib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from penstock.enumerator.server.config.settings import Settings, TableSettings, camel
from penstock.proto.errors import ConfigurationError
from penstock.proto.options.registry import OPTIONS
from penstock.proto.options.types import nearest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_FILE_BYTES: Final = 1 << 20
MAX_PROBLEMS: Final = 10
"""That one error tells; `penstock config check` tells all."""
NEEDS_EXTRA: Final = 'a configuration file needs the extra `server`: pip install "penstock[server]"'
_Path = tuple[str, ...]


def load_settings(
    file: str | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Settings:
    """What a server is told: flags before environment before file before defaults.

    `flags` are by field of `Settings`; None: not given. `tables` of flags are added to those of the file. Variables are
    PENSTOCK_ and the key in upper case, PENSTOCK_TLS_CERT for `cert` of `tls`; tables and rules have none.
    ConfigurationError names key, where it was given, what was got and expected, and the nearest valid key.
    """
    if not file and not any(name in (environment or {}) for name in environment_variables().values()):
        return _from_flags(flags or {})
    made, problems = _told_by(file, environment or {}, flags or {})
    if made is None:
        raise ConfigurationError("; ".join(problems[:MAX_PROBLEMS]))
    return made


def settings_problems(file: str, environment: Mapping[str, str]) -> tuple[Settings | None, list[str]]:
    """What `load_settings` would make of a file, or a line for each of its problems. ConfigurationError: it cannot be
    read at all."""
    return _told_by(file, environment, {})


def _told_by(
    file: str | None, environment: Mapping[str, str], flags: Mapping[str, object]
) -> tuple[Settings | None, list[str]]:
    where: dict[_Path, str] = {}
    values = _read(file) if file else {}
    for path, name in sorted(environment_variables().items()):
        if name in environment:
            _put(values, path, environment[name])
            where[path] = f"environment variable {name}"
    for field, value in flags.items():
        if value is None:
            continue
        if field == "tables" and isinstance(value, Mapping):
            for table, path_of_table in value.items():
                _put(values, ("tables", str(table)), {"path": path_of_table})
                where["tables", str(table)] = "--table"
        else:
            _put(values, (camel(field),), value)
            where[(camel(field),)] = "--" + field.replace("_", "-")
    return _validated(values, where, file or "the flags")


def misspelt(environment: Mapping[str, str]) -> list[str]:
    """A warning for each variable that looks like one of ours and is not read."""
    known = set(environment_variables().values())
    ours = known | {option.environment_name for option in OPTIONS}
    found = []
    for name in sorted(environment):
        if name.startswith("PENSTOCK_") and name not in ours:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
            found += [f"environment variable {name} is not read: did you mean {close[0]}?"] if close else []
    return found


def _from_flags(flags: Mapping[str, object]) -> Settings:
    given: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    if "tables" in given:
        given["tables"] = {name: TableSettings(path=path) for name, path in given["tables"].items()}
    return Settings(**given)


def _validated(values: dict[str, Any], where: Mapping[_Path, str], source: str) -> tuple[Settings | None, list[str]]:
    tables = values.get("tables")
    if isinstance(tables, dict):
        values["tables"] = {name: _table(told) for name, told in tables.items()}
    try:
        from pydantic import TypeAdapter, ValidationError
    except ImportError:
        raise ConfigurationError(NEEDS_EXTRA) from None
    try:
        return TypeAdapter(Settings).validate_python(values), []
    except ValidationError as error:
        return None, [_told(each, where, source) for each in error.errors(include_url=False)]
    except ConfigurationError as error:
        return None, [f"{source}: {error}"]


def _table(told: object) -> object:
    """A table's settings: it may be given by its path alone, and settings of its Kafka client without quotes, which
    TOML takes apart at the dots."""
    if isinstance(told, str):
        return {"path": told}
    if isinstance(told, dict) and isinstance(told.get("kafka"), dict):
        return told | {"kafka": dict(_dotted(told["kafka"]))}
    return told


def _dotted(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _told(error: ErrorDetails, where: Mapping[_Path, str], source: str) -> str:
    """One finding of pydantic in our words. Values are not shown where they might be a secret's path or URI."""
    path = tuple(str(part) for part in error["loc"])
    given = next((where[path[:length]] for length in range(len(path), 0, -1) if path[:length] in where), source)
    key = ".".join(path)
    if error["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        known = _keys_at(path[:-1])
        return f"{given}: unknown key {key!r}{nearest(path[-1], known) or ': expected one of ' + ', '.join(known)}"
    if error["type"] in ("missing", "missing_argument"):
        return f"{given}: key {key!r} is missing"
    got = error["input"]
    harmless = path[0] != "tables" or (isinstance(got, bool | int | float) and "kafka" not in path)
    shown = f"got {got!r:.80}, " if harmless else ""
    return f"{given}: key {key!r}: {shown}expected: {error['msg'].removeprefix('Input ').removeprefix('should be ')}"


def _keys_at(path: _Path) -> list[str]:
    """The valid keys beneath a place of the file."""
    found: Any = Settings
    for part in path:
        hints = get_type_hints(found) if is_dataclass(found) else {}
        named = {camel(name): hint for name, hint in hints.items()}
        found = named.get(part, found)
        found = next((each for each in reversed(getattr(found, "__args__", ())) if is_dataclass(each)), found)
    return [camel(field.name) for field in fields(found)] if is_dataclass(found) else []


def environment_variables() -> dict[tuple[str, ...], str]:
    """Place of a value in the file -> the environment variable that sets it."""
    found: dict[_Path, str] = {}
    for name, hint in get_type_hints(Settings).items():
        if is_dataclass(hint):
            inner = {field.name for field in fields(hint)} - {"allowed_sans"}
            found |= {(camel(name), camel(part)): f"PENSTOCK_{name}_{part}".upper() for part in inner}
        elif hint in (str, int, bool, float, int | None):
            found[(camel(name),)] = f"PENSTOCK_{name}".upper()
    return found


def _put(values: dict[str, Any], path: _Path, value: object) -> None:
    inner = values
    for part in path[:-1]:
        following = inner.setdefault(part, {})
        if not isinstance(following, dict):
            return  # the file holds something else there, which is told when it is checked
        inner = following
    inner[path[-1]] = value


def _read(file: str) -> dict[str, Any]:
    try:
        with pathlib.Path(file).open("rb") as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"configuration file {file[:300]!r} cannot be read: {reason}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigurationError(f"configuration file {file[:300]!r} is larger than {MAX_FILE_BYTES} bytes")
    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"configuration file {file[:300]!r} is no TOML: {error}") from None

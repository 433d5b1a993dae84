"""Loads the `Settings` of `penstock serve` from its configuration file (TOML), the environment, and flags.

pydantic checks the types by the fields of `settings`, detects unknown keys, and locates errors. It is part of the extra
`server`, and required only for a file or a variable; flags work without it. The classes of `settings` check ranges, and
which keys depend on each other.
"""

from __future__ import annotations

import difflib
import pathlib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from penstock.enumerator.server.config.fields import camel
from penstock.enumerator.server.config.settings import Settings, TableSettings
from penstock.proto.errors import ConfigurationError
from penstock.proto.options.registry import OPTIONS
from penstock.proto.options.types import nearest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_FILE_BYTES: Final = 1 << 20
MAX_PROBLEMS: Final = 10
"""The number of problems in one error. `penstock config check` reports all."""
NEEDS_EXTRA: Final = 'a configuration file needs the extra `server`: pip install "penstock[server]"'
_Path = tuple[str, ...]


def load_settings(
    file: str | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Settings:
    """The settings of a server. Flags override the environment, which overrides the file, which overrides the defaults.

    `flags` are by field of `Settings`; None: not set. `tables` of the flags are added to those of the file. A variable
    is PENSTOCK_ and the key in upper case: PENSTOCK_TLS_CERT for `cert` of `tls`. Tables, catalogs and rules have no
    variables.
    ConfigurationError names the key, its source, the actual and the expected value, and the nearest valid key.
    """
    if not file and not any(name in (environment or {}) for name in environment_variables().values()):
        return _from_flags(flags or {})
    settings, problems = _merged(file, environment or {}, flags or {})
    if settings is None:
        raise ConfigurationError("; ".join(problems[:MAX_PROBLEMS]))
    return settings


def settings_problems(file: str, environment: Mapping[str, str]) -> tuple[Settings | None, list[str]]:
    """The settings that `load_settings` returns for a file, or a line for each problem. ConfigurationError: the file
    cannot be read."""
    return _merged(file, environment, {})


def _merged(
    file: str | None, environment: Mapping[str, str], flags: Mapping[str, object]
) -> tuple[Settings | None, list[str]]:
    sources: dict[_Path, str] = {}
    values = _read(file) if file else {}
    for path, name in sorted(environment_variables().items()):
        if name in environment:
            _put(values, path, environment[name])
            sources[path] = f"environment variable {name}"
    for field, value in flags.items():
        if value is None:
            continue
        if field == "tables" and isinstance(value, Mapping):
            for table, path_of_table in value.items():
                _put(values, ("tables", str(table)), {"path": path_of_table})
                sources["tables", str(table)] = "--table"
        else:
            _put(values, (camel(field),), value)
            sources[(camel(field),)] = "--" + field.replace("_", "-")
    return _validated(values, sources, file or "the flags")


def misspelt_variables(environment: Mapping[str, str]) -> list[str]:
    """A warning for each variable that is similar to a variable of Penstock and is not read."""
    known = set(environment_variables().values())
    all_names = known | {option.environment_name for option in OPTIONS}
    warnings = []
    for name in sorted(environment):
        if name.startswith("PENSTOCK_") and name not in all_names:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
            warnings += [f"environment variable {name} is not read: did you mean {close[0]}?"] if close else []
    return warnings


def _from_flags(flags: Mapping[str, object]) -> Settings:
    arguments: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    if "tables" in arguments:
        arguments["tables"] = {name: TableSettings(path=path) for name, path in arguments["tables"].items()}
    return Settings(**arguments)


def _validated(
    values: dict[str, Any], sources: Mapping[_Path, str], default_source: str
) -> tuple[Settings | None, list[str]]:
    tables = values.get("tables")
    if isinstance(tables, dict):
        values["tables"] = {name: _table(value) for name, value in tables.items()}
    catalogs = values.get("catalog")
    if isinstance(catalogs, dict):
        values["catalog"] = {
            name: {"path": value} if isinstance(value, str) else value for name, value in catalogs.items()
        }
    try:
        from pydantic import TypeAdapter, ValidationError
    except ImportError:
        raise ConfigurationError(NEEDS_EXTRA) from None
    try:
        return TypeAdapter(Settings).validate_python(values), []
    except ValidationError as error:
        return None, [_problem(detail, sources, default_source) for detail in error.errors(include_url=False)]
    except ConfigurationError as error:
        return None, [f"{default_source}: {error}"]


def _table(value: object) -> object:
    """A table's settings in their long form. The short form is the path alone. Kafka settings may have unquoted names,
    which TOML nests at the dots."""
    if isinstance(value, str):
        return {"path": value}
    if isinstance(value, dict) and isinstance(value.get("kafka"), dict):
        return value | {"kafka": dict(_dotted(value["kafka"]))}
    return value


def _dotted(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _problem(error: ErrorDetails, sources: Mapping[_Path, str], default_source: str) -> str:
    """The text of one error of pydantic. It omits values that may be a secret, a path or a URI."""
    path = tuple(str(part) for part in error["loc"])
    prefixes = (path[:length] for length in range(len(path), 0, -1))
    source = next((sources[prefix] for prefix in prefixes if prefix in sources), default_source)
    key = ".".join(path)
    if error["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        known = _keys_at(path[:-1])
        return f"{source}: unknown key {key!r}{nearest(path[-1], known) or ': expected one of ' + ', '.join(known)}"
    if error["type"] in ("missing", "missing_argument"):
        return f"{source}: key {key!r} is missing"
    value = error["input"]
    is_public = path[0] not in ("tables", "catalog") or (isinstance(value, bool | int | float) and "kafka" not in path)
    actual = f"got {value!r:.80}, " if is_public else ""
    return f"{source}: key {key!r}: {actual}expected: {error['msg'].removeprefix('Input ').removeprefix('should be ')}"


def _keys_at(path: _Path) -> list[str]:
    """The valid keys under a path of the file."""
    hint: Any = Settings
    for part in path:
        hints = get_type_hints(hint) if is_dataclass(hint) else {}
        by_key = {camel(name): field_hint for name, field_hint in hints.items()}
        hint = by_key.get(part, hint)
        hint = next((arg for arg in reversed(getattr(hint, "__args__", ())) if is_dataclass(arg)), hint)
    return [camel(field.name) for field in fields(hint)] if is_dataclass(hint) else []


def environment_variables() -> dict[tuple[str, ...], str]:
    """Path of a value in the file -> the environment variable that sets it."""
    names: dict[_Path, str] = {}
    for name, hint in get_type_hints(Settings).items():
        if is_dataclass(hint):
            inner = {field.name for field in fields(hint)} - {"allowed_sans"}
            names |= {(camel(name), camel(part)): f"PENSTOCK_{name}_{part}".upper() for part in inner}
        elif hint in (str, int, bool, float, int | None):
            names[(camel(name),)] = f"PENSTOCK_{name}".upper()
    return names


def _put(values: dict[str, Any], path: _Path, value: object) -> None:
    inner = values
    for part in path[:-1]:
        following = inner.setdefault(part, {})
        if not isinstance(following, dict):
            return  # the file has a value of another type here, which validation reports
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
        raise ConfigurationError(f"configuration file {file[:300]!r} is not TOML: {error}") from None

"""The client's file (`--config FILE`, TOML): options for every command, and tables by name with their own options.

Keys are the names in docs/reference/options.md, in any spelling. Values may be strings, numbers, booleans or lists.
`penstock.proto.options.registry` defines the precedence of flag, environment and file. The server has another file
(`penstock.enumerator.server.config.load`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.access import ServerAccess
from penstock.proto.options.kafka import CLIENT, is_client_setting
from penstock.proto.options.registry import OPTIONS, option_named
from penstock.proto.options.types import nearest

MAX_FILE_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 8
TABLES: Final = "tables"
PATH: Final = "path"
_CONNECTING: Final = ("server", "serverCa", "serverCert", "serverKey", "serverToken")

Located = tuple[str, object]
"""The place of a value, for error texts, and the value."""


@dataclass(frozen=True, slots=True)
class ClientTable:
    """A table of the file."""

    path: str = field(default="", repr=False)
    """Path or URI; '' for a table that a server serves under its name."""
    options: Mapping[str, Located] = field(default_factory=dict, repr=False)
    """The table's own options, by name."""


@dataclass(frozen=True, slots=True)
class ClientFile:
    """The content of a client's file. Values may be secrets, so the `repr` omits them."""

    file: str = ""
    """The path of the file; '' for none."""
    options: Mapping[str, Located] = field(default_factory=dict, repr=False)
    """Options for every command, by name."""
    tables: Mapping[str, ClientTable] = field(default_factory=dict)
    """Tables by name."""

    def options_of(self, table: str | None, *, asks_server: bool = True) -> dict[str, Located]:
        """The options for a command on a table. The table's own options override the common ones. Connection options
        apply to a table with a path only if they are its own; without `asks_server` they never apply."""
        entry = self.tables.get(table or "", ClientTable())
        local = bool(entry.path) or not asks_server
        common = {name: value for name, value in self.options.items() if not (local and name in _CONNECTING)}
        own = {name: value for name, value in entry.options.items() if asks_server or name not in _CONNECTING}
        return common | own

    def path_of(self, table: str, server: str | None) -> str:
        """The path of the table; its name if a server serves it or the file does not have the table."""
        entry = self.tables.get(table)
        return table if entry is None or server is not None else entry.path or table


NO_FILE: Final = ClientFile()


def load_client_file(file: str) -> ClientFile:
    """Reads and checks the file. ConfigurationError: its first problem, and the number of further ones."""
    client_file, problems = checked_client_file(file, read_toml(file))
    if problems:
        more = f" (and {len(problems) - 1} more: penstock config check {file})" if len(problems) > 1 else ""
        raise ConfigurationError(problems[0] + more)
    return client_file


def read_toml(file: str) -> dict[str, Any]:
    """The content of the file. ConfigurationError: it cannot be read, is larger than 1 MiB, or is not TOML."""
    shown = f"configuration file {file[:300]!r}"
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{shown} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigurationError(f"{shown} is larger than {MAX_FILE_BYTES} bytes")
    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{shown} is not TOML: {error}") from None


def checked_client_file(file: str, values: Mapping[str, Any]) -> tuple[ClientFile, list[str]]:
    """Parses the values. Returns the file, and a line for each problem."""
    problems: list[str] = []
    tables: dict[str, ClientTable] = {}
    table_entries = values.get(TABLES, {})
    common = _options(file, "", {key: value for key, value in values.items() if key != TABLES}, problems)
    if not isinstance(table_entries, dict):
        problems.append(f"{file}: tables: expected [tables.NAME] with options, or NAME = PATH")
        table_entries = {}
    for name, entry in table_entries.items():
        where = f"tables.{name}."
        if isinstance(entry, str):
            entry = {PATH: entry}
        if not isinstance(entry, dict):
            problems.append(f"{file}: tables.{name}: expected a path, or a table of options")
            continue
        path = entry.get(PATH, "")
        if not isinstance(path, str) or (PATH in entry and not path):
            problems.append(f"{file}: key 'tables.{name}.path': expected a path or URI")
            path = ""
        own = _options(file, where, {key: value for key, value in entry.items() if key != PATH}, problems)
        if path and "server" in own:
            problems.append(
                f"{file}: tables.{name}: path and server exclude each other: a server serves {name} under its name"
            )
        tables[str(name)] = ClientTable(path, own)
    client_file = ClientFile(file, common, tables)
    for name in (None, *tables):
        _check_access(client_file, name, problems)
    return client_file, problems


def _options(file: str, where: str, values: Mapping[str, Any], problems: list[str]) -> dict[str, Located]:
    """The options among the values. Appends a line to `problems` for each unknown, repeated or invalid one."""
    values_by_option: dict[str, Located] = {}
    settings: dict[str, object] = {}
    for key, value in _flat(values):
        place = f"{file}: {where}{key}"
        if is_client_setting(key):
            settings[key.lower().removeprefix(f"{CLIENT}.")] = value
            continue
        option = option_named(key)
        if option is None:
            known = [*(ours.name for ours in OPTIONS), *([PATH] if where else [TABLES])]
            advice = nearest(key, known) or ": there is no option of that name (docs/reference/options.md)"
            problems.append(f"{file}: unknown key {where + key!r}{advice}")
        elif option.name in values_by_option:
            problems.append(f"{place}: {option.name} is given twice, also as {values_by_option[option.name][0]}")
        else:
            values_by_option[option.name] = (place, value)
    if settings:
        values_by_option[CLIENT] = (f"{file}: {where}{CLIENT}", settings)
    for option in OPTIONS:
        if option.name in values_by_option:
            place, value = values_by_option[option.name]
            try:
                option.type.parse(place, value)
            except ConfigurationError as error:
                problems.append(str(error))
    return values_by_option


def _flat(values: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Joins the keys of nested tables with dots: TOML splits `kafka.bootstrap.servers` into three."""
    for key, value in values.items():
        if isinstance(value, dict) and depth < MAX_DEPTH:
            yield from _flat(value, f"{prefix}{key}.", depth + 1)
        else:
            yield prefix + key, value


def _check_access(client_file: ClientFile, name: str | None, problems: list[str]) -> None:
    options = client_file.options_of(name)
    table_entries = [str(options[option][1]) if option in options else "" for option in _CONNECTING[1:]]
    try:
        ServerAccess(ca=table_entries[0], cert=table_entries[1], key=table_entries[2], token=table_entries[3])
    except ConfigurationError as error:
        line = f"{client_file.file}: {f'tables.{name}: ' if name else ''}{error}"
        if not any(other.endswith(str(error)) for other in problems):
            problems.append(line)

"""The client's file (`--config FILE`, TOML): options for every command, and tables by name with options of their own.

Keys are the registry's names (docs/reference/options.md), in any spelling; values may be text, numbers, truth values or
lists. Belongs here: reading it, and every problem in it as a line. Not here: which of flag, environment and file counts
(`penstock.proto.options.registry`), the server's file (`penstock.enumerator.server.config.load`).
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
"""Where a value stands, for an error's text, and the value."""


@dataclass(frozen=True, slots=True)
class ClientTable:
    """A table of the file. `path` '': a server is asked for it by its name."""

    path: str = field(default="", repr=False)
    options: Mapping[str, Located] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ClientFile:
    """What a client's file says. Values may be secrets: not in the `repr`."""

    file: str = ""
    options: Mapping[str, Located] = field(default_factory=dict, repr=False)
    tables: Mapping[str, ClientTable] = field(default_factory=dict)

    def options_of(self, table: str | None, *, asks_server: bool = True) -> dict[str, Located]:
        """The options for a command on a table: its own before those of every command. A table that has a path asks no
        server unless it names one itself; no table does without `asks_server`."""
        entry = self.tables.get(table or "", ClientTable())
        local = bool(entry.path) or not asks_server
        common = {name: value for name, value in self.options.items() if not (local and name in _CONNECTING)}
        own = {name: value for name, value in entry.options.items() if asks_server or name not in _CONNECTING}
        return common | own

    def path_of(self, table: str, server: str | None) -> str:
        """What is opened or asked for: a table's path, or its name where a server is asked, or no table is named so."""
        entry = self.tables.get(table)
        return table if entry is None or server is not None else entry.path or table


NO_FILE: Final = ClientFile()


def load_client_file(file: str) -> ClientFile:
    """The file, checked whole. ConfigurationError: the first of its problems, and how many more there are."""
    client_file, problems = checked_client_file(file, read_toml(file))
    if problems:
        more = f" (and {len(problems) - 1} more: penstock config check {file})" if len(problems) > 1 else ""
        raise ConfigurationError(problems[0] + more)
    return client_file


def read_toml(file: str) -> dict[str, Any]:
    """The file's content. ConfigurationError: it cannot be read, is too large or no TOML."""
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
        raise ConfigurationError(f"{shown} is no TOML: {error}") from None


def checked_client_file(file: str, values: Mapping[str, Any]) -> tuple[ClientFile, list[str]]:
    """What the values say, and a line for each problem."""
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
                f"{file}: tables.{name}: path and server exclude each other: a server is asked for {name} by its name"
            )
        tables[str(name)] = ClientTable(path, own)
    client_file = ClientFile(file, common, tables)
    for name in (None, *tables):
        _check_access(client_file, name, problems)
    return client_file, problems


def _options(file: str, where: str, values: Mapping[str, Any], problems: list[str]) -> dict[str, Located]:
    """The options among the values, each parsed once to see that it can be."""
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
            advice = nearest(key, known) or ": no option of that name is there (docs/reference/options.md)"
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
    """Keys that TOML took apart at their dots, put together: `kafka.bootstrap.servers`."""
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

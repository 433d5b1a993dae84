"""The job file of `penstock sync`: what is kept equal where. Pure but for reading the file."""

from __future__ import annotations

import pathlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlencode

from penstock.proto.errors import ConfigurationError
from penstock.proto.options.types import nearest
from penstock.table.storage.uris import redacted_uri

MAX_FILE_BYTES: Final = 1 << 20
MAX_ENTRIES: Final = 1_000
SOURCE_COLUMN: Final = "_source"
_URL: Final = re.compile(r"([a-z0-9+]+)://(.*)", re.DOTALL)
_KEYS: Final = (
    "from", "to", "then", "without", "into", "pattern", "exclude", "server", "key", "source_column", "columns",
    "options",
)  # fmt: skip
_KINDS: Final = ("duckdb", "postgresql", "delta", "parquet", "hudi")
_PLACES: Final = ("schema", "host", "port", "dbname")
"""Parameters of a PostgreSQL URL that select the target."""
_OPTION_TYPES: Final = (str, bool, int)
_TOPICS: Final = "kafka://"
NAME: Final = "{name}"
"""Stands for the source's name in `then`."""


@dataclass(frozen=True, slots=True)
class TargetUrl:
    """Where a target is."""

    kind: str
    """`duckdb`, `postgresql`, `delta`, `parquet` or `hudi`."""
    place: str = field(repr=False)
    """A path or URI, or for PostgreSQL the whole URL."""

    def __str__(self) -> str:
        """The target without credentials. Two targets that are not the same have different texts."""
        text = f"{self.kind}: {redacted_uri(self.place)}"
        if self.kind != "postgresql":
            return text
        query = [one for one in parse_qsl(self.place.partition("?")[2]) if one[0] in _PLACES]
        return f"{text}?{urlencode(query)}" if query else text


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncEntry:
    """One `[[sync]]` of a job."""

    source: str = field(repr=False)
    """`from`: a folder or glob of tables; with `server` a shell pattern of names; or `kafka://BROKERS/PATTERN`."""
    target: TargetUrl
    """`to`."""
    into: str = ""
    """The table of the target for all sources; '': each source has a table of its own name."""
    pattern: tuple[str, ...] = ("*",)
    """Shell patterns of source names; a source must match one of them."""
    exclude: tuple[str, ...] = ()
    """Shell patterns of source names; a source must match none of them."""
    key: tuple[str, ...] = ()
    """The columns that identify a row; (): those of the table's key and partition."""
    source_column: str = ""
    """With `into`, the column with the name of the source; '' without `into`."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """The types of the columns of topics whose JSON has no schemas."""
    then: str = field(default="", repr=False)
    """The topic that fills each table, in which its copy continues: `kafka://BROKERS/PREFIX.{name}`, or the topic of
    the only table; '': none."""
    without: tuple[str, ...] = ()
    """With `then`, columns of the tables that the copies do not have."""
    options: Mapping[str, str | bool | int] = field(default_factory=dict, repr=False)
    """Options of the streams (docs/reference/options.md), `server` among them."""


def load_job(file: str) -> tuple[SyncEntry, ...]:
    """The entries of a job file. ConfigurationError, naming file, entry and key, if something does not fit."""
    path = pathlib.Path(file)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigurationError(f"{file}: longer than {MAX_FILE_BYTES} bytes, expected a job of penstock sync")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file}: cannot be read: {error}") from None
    return parse_job(text, file)


def parse_job(text: str, where: str) -> tuple[SyncEntry, ...]:
    """The entries of a job in TOML; `where` is its name in errors."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{where}: not TOML: {error}") from None
    unknown = sorted(set(values) - {"sync"})
    if unknown:
        raise ConfigurationError(f"{where}: unknown key {unknown[0]!r}: expected [[sync]] entries")
    entries = values.get("sync")
    if not isinstance(entries, list) or not entries or len(entries) > MAX_ENTRIES:
        raise ConfigurationError(f"{where}: expected 1 to {MAX_ENTRIES} [[sync]] entries with `from` and `to`")
    return tuple(_entry(f"{where}: [[sync]] {number}", values) for number, values in enumerate(entries, 1))


def _entry(where: str, values: Any) -> SyncEntry:
    if not isinstance(values, dict):
        raise ConfigurationError(f'{where}: expected keys and values, such as from = "/lake/*"')
    for name in values:
        if name not in _KEYS:
            raise ConfigurationError(f"{where}: unknown key {name!r}{nearest(name, _KEYS)}")
    into = _text(where, values, "into")
    if "source_column" in values and not into:
        raise ConfigurationError(f"{where}: source_column without into: a table with one source has no such column")
    options = dict(_options(where, values.get("options", {})))
    if "server" in values:
        options["server"] = _text(where, values, "server")
    source, then = _required(where, values, "from"), _text(where, values, "then")
    _check_then(where, source, then, values, options)
    return SyncEntry(
        source=source,
        target=parse_target(where, _required(where, values, "to")),
        into=into,
        pattern=_texts(where, values, "pattern") or ("*",),
        exclude=_texts(where, values, "exclude"),
        key=_texts(where, values, "key"),
        source_column=(_text(where, values, "source_column") or SOURCE_COLUMN) if into else "",
        columns=_columns(where, values),
        then=then,
        without=_texts(where, values, "without"),
        options=options,
    )


def parse_target(where: str, url: str) -> TargetUrl:
    """A target's URL: `duckdb:///PATH`, `delta:///PATH`, `parquet:///PATH` (a fourth slash begins an absolute path;
    `delta+s3://BUCKET/PATH` is an object store, `delta+file:///PATH` a local path), `postgresql://USER@HOST/DATABASE`."""
    match = _URL.fullmatch(url)
    kind, _, scheme = match[1].partition("+") if match else ("", "", "")
    if match is None or kind not in _KINDS:
        raise ConfigurationError(
            f"{where}: to: got {redacted_uri(url)[:100]!r}, expected {', '.join(f'{one}://…' for one in _KINDS)}"
        )
    if scheme and (kind == "postgresql" or (kind == "duckdb" and scheme != "file")):
        raise ConfigurationError(
            f"{where}: to: got {redacted_uri(url)[:100]!r}, expected {kind}://: "
            f"{'a DuckDB file is local' if kind == 'duckdb' else 'the URL names no driver'}"
        )
    if kind == "postgresql":
        return TargetUrl(kind, url)
    if scheme == "file" and match[2].startswith("/"):
        return TargetUrl(kind, unquote(match[2]))  # not a store, which has no lock and replaces no file at once
    if scheme:
        return TargetUrl(kind, f"{scheme}://{match[2]}")
    if not match[2].startswith("/") or len(match[2]) < 2:
        raise ConfigurationError(
            f"{where}: to: got {redacted_uri(url)[:100]!r}, expected {kind}:///PATH, or for an absolute path "
            f"{kind}:////PATH"
        )
    return TargetUrl(kind, match[2][1:])


def _check_then(where: str, source: str, then: str, values: Mapping[str, Any], options: Mapping[str, object]) -> None:
    if not then and "without" in values:
        raise ConfigurationError(f"{where}: without: only with `then`: a copy of a table has all of its columns")
    if not then:
        return
    if not then.startswith(_TOPICS) or then.count(NAME) != then.rpartition("/")[2].count(NAME) or then.count(NAME) > 1:
        raise ConfigurationError(
            f"{where}: then: expected the topic that fills each table, {_TOPICS}BROKER:PORT/PREFIX.{NAME}: one {NAME}, "
            "which is the name of the source, or none if `from` names one table"
        )
    if source.startswith(_TOPICS):
        raise ConfigurationError(f"{where}: then: `from` names topics already: expected tables")
    if any(name.casefold() == "where" for name in options):
        raise ConfigurationError(f"{where}: options.where with then: the events of a topic are not filtered")


def _required(where: str, values: Mapping[str, Any], name: str) -> str:
    text = _text(where, values, name)
    if not text:
        raise ConfigurationError(f"{where}: {name} is missing: expected from and to in each entry")
    return text


def _text(where: str, values: Mapping[str, Any], name: str) -> str:
    value = values.get(name, "")
    if not isinstance(value, str) or (name in values and not value):
        raise ConfigurationError(f"{where}: {name}: got {value!r}, expected a text")
    return value


def _texts(where: str, values: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = values.get(name, [])
    texts: Sequence[object] = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(one, str) and one for one in texts):
        raise ConfigurationError(f"{where}: {name}: got {value!r}, expected a text or a list of texts")
    return tuple(str(one) for one in texts)


def _columns(where: str, values: Mapping[str, Any]) -> Mapping[str, str]:
    columns = values.get("columns", {})
    if not isinstance(columns, dict) or not all(isinstance(kind, str) for kind in columns.values()):
        raise ConfigurationError(f'{where}: columns: expected names and types, such as columns.id = "int64"')
    if columns and not str(values["from"]).startswith(_TOPICS) and "then" not in values:
        raise ConfigurationError(f"{where}: columns: only topics need them: a table has its own")
    return columns


def _options(where: str, values: Any) -> Mapping[str, str | bool | int]:
    if isinstance(values, dict) and isinstance(values.get("kafka"), dict):
        values = {**{name: one for name, one in values.items() if name != "kafka"}, **_dotted("kafka", values["kafka"])}
    if not isinstance(values, dict) or not all(isinstance(value, _OPTION_TYPES) for value in values.values()):
        raise ConfigurationError(f'{where}: options: expected names and values, such as options.onCorrupt = "skip"')
    return values


def _dotted(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of nested tables by dotted names: TOML nests `options.kafka.sasl.username`."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat.update(_dotted(f"{prefix}.{name}", value) if isinstance(value, dict) else {f"{prefix}.{name}": value})
    return flat

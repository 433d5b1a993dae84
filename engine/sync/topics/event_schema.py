"""The columns and the key of Debezium's events, from the schemas that records carry or name. Pure but for the registry.

A schema counts for the records after it until the next one: `schema_runs` divides records into runs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from penstock.engine.sync.layout import widens
from penstock.engine.sync.topics.connect_types import AvroTypes, ConnectType, Fields, connect_type, fields_of
from penstock.engine.sync.topics.values import columns_of, schema_text
from penstock.kafka.protocols import SchemaRegistry, UnusableSchema
from penstock.proto.errors import ConfigurationError, SchemaMismatch
from penstock.reader.merge.delete_markers import DELETE_MARK
from penstock.reader.topics.debezium.envelope import ADDED, SEQUENCE
from penstock.table.schema.avro import META_COLUMNS, OPERATION
from penstock.table.schema.changes import CHANGE_INSTANT, CHANGE_SEQ, CHANGE_TYPE

_RESERVED: Final = frozenset(
    {*META_COLUMNS, OPERATION, DELETE_MARK, *ADDED, SEQUENCE, CHANGE_TYPE, CHANGE_SEQ, CHANGE_INSTANT}
)
GIVEN: Final = "given"
"""The digest of a key that the job has."""
_HEADER: Final = 5
_PAYLOAD: Final = b'"payload":'
_MOST_SCHEMAS: Final = 100
_LONGEST_HEAD: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive records with one schema."""

    begin: int
    """The first record."""
    end: int
    """The record after the last one."""
    schema: ConnectType | None
    """The type of their values or keys; None: no record has one that can be read."""
    head: bytes
    """The bytes with which each of the records begins, and which name the schema."""


class SchemaForm(Protocol):
    """How records name their schema."""

    def head_of(self, text: bytes, where: str) -> bytes | None:
        """The first bytes of a record, which are those of every record with its schema; None: it has no schema that
        can be read, which the decoder reports."""
        ...

    def schema_of(self, head: bytes) -> ConnectType | None:
        """The schema of records that begin with these bytes."""
        ...


def schema_runs(texts: Sequence[bytes | None], form: SchemaForm, where: str) -> Iterator[Run]:
    """The runs of records. Those without a text, or without a schema that can be read, are part of the run before."""
    begin, head, schema = 0, None, None
    for place, text in enumerate(texts):
        if text is None or (head is not None and text.startswith(head)):
            continue
        now = form.head_of(text, where)
        if now is None or now == head:
            continue
        if head is not None:
            yield Run(begin, place, schema, head)
            begin = place
        head, schema = now, form.schema_of(now)
    if texts:
        yield Run(begin, len(texts), schema, head or b"")


@dataclass(frozen=True, slots=True, eq=False)
class ConnectJson:
    """Connect's JSON: `{"schema": …, "payload": …}`."""

    _schemas: dict[bytes, ConnectType] = field(default_factory=dict)

    def head_of(self, text: bytes, where: str) -> bytes | None:
        """See `SchemaForm`. ConfigurationError for a record without a schema: columns have no types then."""
        end = text.find(_PAYLOAD)
        while 0 <= end <= _LONGEST_HEAD:
            head = text[: end + len(_PAYLOAD)]
            if head in self._schemas:
                return head
            document = _parsed(head + b"null}")
            if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
                if document["schema"] is None:
                    break
                return self._added(head, document["schema"])
            end = text.find(_PAYLOAD, end + 1)
        document = _parsed(text)
        if document is None:
            return None
        if isinstance(document, dict) and document.keys() == {"schema", "payload"} and document["schema"] is not None:
            return self._added(text, document["schema"])  # the payload is first: the record is a run of its own
        raise ConfigurationError(
            f"{where}: its JSON has no schema, so columns have no types: set key.converter.schemas.enable and "
            "value.converter.schemas.enable to true in Debezium, write Avro (kafkaValueFormat=debezium-avro), or give "
            "the types in the job (columns)"
        )

    def schema_of(self, head: bytes) -> ConnectType | None:
        """See `SchemaForm`."""
        return self._schemas.get(head)

    def _added(self, head: bytes, schema: Any) -> bytes:
        if len(self._schemas) >= _MOST_SCHEMAS:
            self._schemas.clear()
        self._schemas[head] = connect_type(schema)
        return head


@dataclass(frozen=True, slots=True, eq=False)
class GivenColumns:
    """JSON whose columns the job has: each record has the same ones."""

    columns: Mapping[str, ConnectType]
    """The columns."""

    def head_of(self, text: bytes, where: str) -> bytes | None:
        """See `SchemaForm`."""
        return b""

    def schema_of(self, head: bytes) -> ConnectType | None:
        """See `SchemaForm`."""
        after = ConnectType(kind="struct", fields=self.columns)
        return ConnectType(kind="struct", fields={"after": after, "op": ConnectType(kind="string")})


@dataclass(frozen=True, slots=True, eq=False)
class FramedAvroIds:
    """Avro with the id of the registry's schema before it."""

    registry: SchemaRegistry
    """The schemas."""
    _schemas: dict[bytes, ConnectType | None] = field(default_factory=dict)

    def head_of(self, text: bytes, where: str) -> bytes | None:
        """See `SchemaForm`."""
        return text[:_HEADER] if len(text) >= _HEADER and text[0] == 0 else None

    def schema_of(self, head: bytes) -> ConnectType | None:
        """See `SchemaForm`. Errors of the registry that a retry may help with."""
        if head not in self._schemas:
            try:
                read: ConnectType | None = AvroTypes(
                    json.loads(self.registry.schema(int.from_bytes(head[1:], "big")))
                ).root
            except (UnusableSchema, ValueError, RecursionError):
                read = None  # the decoder says which record it is
            self._schemas[head] = read
        return self._schemas[head]


def event_fields(schema: ConnectType, where: str) -> Fields:
    """The columns of events with this schema. SchemaMismatch for other records, and for types without a column type."""
    after = schema.fields.get("after")
    if after is None or not after.fields or "op" not in schema.fields:
        raise SchemaMismatch(
            f"{where}: not Debezium's events: expected a schema with `op` and a struct `after`: got fields "
            f"{', '.join(schema.fields)[:100] or schema.kind}: exclude the topic (pattern, exclude)"
        )
    reserved = [name for name in after.fields if name in _RESERVED]
    if reserved:
        raise SchemaMismatch(
            f"{where}: column {reserved[0]}: this name has a meaning for Hudi: exclude it (Debezium's "
            "column.exclude.list), or rename it"
        )
    return fields_of(after.fields, where)


@dataclass(frozen=True, slots=True)
class EventKey:
    """The key of events."""

    names: tuple[str, ...]
    """Its fields."""
    head: str
    """A digest of the bytes before the fields' values, which are part of what selects a partition; '': it is that of
    the next event."""


def event_key(keys: Sequence[bytes | None], form: SchemaForm, known: EventKey | None, where: str) -> EventKey | None:
    """The key of these events and those before; None: there is no event yet.

    SchemaMismatch for events without a key, or with another one: rows cannot be identified then, or events of one row
    may be in several partitions, whose order is not known.
    """
    for now in event_keys(keys, form, where):
        is_same = known is None or (now == known if known.head else set(now.names) == set(known.names))
        if known is not None and not is_same:
            raise SchemaMismatch(
                f"{where}: the events had the key ({', '.join(known.names)}) and have ({', '.join(now.names)}), or its "
                "schema is another one, so events of one row may be in several partitions: load the table again from "
                "a new topic"
            )
        known = now
    return known


def event_keys(keys: Sequence[bytes | None], form: SchemaForm, where: str) -> Iterator[EventKey]:
    """The key of each run of events. SchemaMismatch for events without a key."""
    if None in keys:
        raise SchemaMismatch(
            f"{where}: its events have no key, so rows cannot be identified: give the table a primary key, or "
            "Debezium message.key.columns"
        )
    for run in schema_runs(keys, form, where):
        if run.schema is None:
            continue
        now = EventKey(tuple(run.schema.fields), hashlib.sha256(run.head).hexdigest()[:16])
        if not now.names:
            raise SchemaMismatch(f"{where}: the key of its events is a {run.schema.kind}, expected a struct")
        yield now


def given_key(keys: Sequence[bytes | None], names: tuple[str, ...], where: str) -> EventKey:
    """The key that the job has. SchemaMismatch if the first one of these keys is not a JSON object of its fields, or
    one is missing."""
    document = _parsed(keys[0] or b"")
    payload = document["payload"] if isinstance(document, dict) and {"schema", "payload"} == set(document) else document
    if None in keys or not isinstance(payload, dict) or set(payload) != set(names):
        raise SchemaMismatch(
            f"{where}: key {', '.join(names)}: expected keys of events that are JSON objects with these fields: got "
            f"{(keys[0] or b'')[:100]!r}, or a record without a key"
        )
    return EventKey(names, GIVEN)


def unknown_fields(values: Sequence[bytes | None], fields: Fields) -> list[str]:
    """The fields of the rows of JSON events that are none of these, sorted."""
    names: set[str] = set()
    for value in filter(None, values):
        document = _parsed(value)
        payload = document.get("payload", document) if isinstance(document, dict) else None
        after = payload.get("after") if isinstance(payload, dict) else None
        names |= set(after) if isinstance(after, dict) else set()
    return sorted(names - {one["name"] for one in fields})


def merged(known: str, fields: Fields, where: str) -> str:
    """An Avro schema with the columns of both: those of `known` ('': none) first.

    Columns that are gone stay. Of a column with two types the wider one counts. SchemaMismatch for types of which none
    holds the values of the other, and for types that no column can have.
    """
    columns: dict[str, Any] = {one["name"]: one for one in json.loads(known)["fields"]} if known else {}
    for one in fields:
        before = columns.get(one["name"])
        columns[one["name"]] = one if before is None else _wider(before, one, where)
    return schema_text(list(columns.values()))


def _wider(before: dict[str, Any], now: dict[str, Any], where: str) -> dict[str, Any]:
    if before == now:
        return before
    old, new = (columns_of(schema_text([one]), where).field(0).type for one in (before, now))
    if old == new or widens(new, old):
        return before
    if widens(old, new):
        return now
    raise SchemaMismatch(
        f"{where}: column {now['name']} was {old} and is {new}, and the stored values cannot be converted: load the "
        "table again (--restart)"
    )


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None

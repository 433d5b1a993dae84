"""The columns of a copy that begins with a table and continues with the events of its topic. Pure.

A column that only one of both has would have wrong values: an event replaces the whole row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from penstock.engine.sync.layout import widens
from penstock.engine.sync.targets.rows import aligned
from penstock.engine.sync.topics.connect_types import CONNECT_NAME, Fields
from penstock.engine.sync.topics.values import columns_of, converted, schema_text, wire_fields
from penstock.proto.errors import ConfigurationError, SchemaMismatch
from penstock.reader.merge.delete_markers import DELETE_MARK
from penstock.reader.topics.debezium.envelope import ADDED, SEQUENCE
from penstock.table.schema.avro import META_COLUMNS, OPERATION
from penstock.table.schema.changes import CHANGE_SEQ, CHANGE_TYPE

_OF_HUDI: Final = frozenset({*META_COLUMNS, OPERATION, DELETE_MARK, *ADDED, SEQUENCE})
"""Columns that Hudi adds to those of the events."""
_NUMBERS: Final = {pa.int64(): "long", pa.float32(): "float", pa.float64(): "double"}


def joined_fields(
    table: str, lake: pa.Schema, topic: str, events: Fields, key: Iterable[str], without: Iterable[str]
) -> Fields:
    """The columns of the copy, in the order of the table, with types that hold the values of both.

    SchemaMismatch, naming column and types, if table and events do not have the same columns, those of Hudi and
    `without` aside, or if a type is not the same, not the one that Connect sends, and not a wider number.
    """
    own = [one for one in lake if one.name not in _OF_HUDI and one.name not in without]
    by_name = {one["name"]: one for one in events}
    only_lake = [one.name for one in own if one.name not in by_name]
    only_topic = [name for name in by_name if name not in {one.name for one in own}]
    if only_lake:
        raise SchemaMismatch(
            f"table {table} has column {', '.join(only_lake)}, and the last events of topic {topic} before its end do "
            "not: an event would replace its values by null: if its values do not come from the topic, or the source "
            "has dropped it, leave it out of the copy (without)"
        )
    if only_topic:
        raise SchemaMismatch(
            f"the events of topic {topic} have column {', '.join(only_topic)}, and table {table} does not: the copy "
            "would have its values only after the next event of each row: exclude it in Debezium "
            "(column.exclude.list), add it to the table, or copy from the topic alone; if the source has dropped it, "
            "leave it out of the copy (without)"
        )
    return [_joined(table, topic, one, by_name[one.name], one.name in key) for one in own]


def check_without(table: str, lake: pa.Schema, topic: str, seen: Fields, without: Iterable[str]) -> None:
    """ConfigurationError for a column of `without` that neither table nor events (`seen`) have."""
    names = {*lake.names, *(one["name"] for one in seen)}
    missing = [name for name in without if name not in names]
    if missing:
        raise ConfigurationError(
            f"table {table}: without {', '.join(missing)}: neither the table nor the last events of topic {topic} "
            "before its end have this column"
        )


def _joined(table: str, topic: str, lake: pa.Field, event: dict[str, Any], is_key: bool) -> dict[str, Any]:
    now, sent = _type(event, topic), _type(wire_fields([event], is_json=False)[0], topic)
    if lake.type in (now, sent) or _is_wider(now, lake.type, is_key):
        return event
    if _is_wider(lake.type, now, is_key):
        return {"name": lake.name, "type": ["null", _avro(lake.type)], "default": None}
    raise SchemaMismatch(
        f"column {lake.name} is {lake.type} in table {table} and {now} in the events of topic {topic}"
        f"{f', which Connect sends as {sent}' if sent != now else ''}: give both the same type, or copy from the topic "
        "alone"
    )


def _type(event: dict[str, Any], topic: str) -> pa.DataType:
    return columns_of(schema_text([event]), f"topic {topic}").field(0).type


def _is_wider(wider: pa.DataType, narrower: pa.DataType, is_key: bool) -> bool:
    """Whether a number becomes another number. A text of the table may have another form than the cast of a number or
    date; two keys could be one float."""
    is_number = wider in _NUMBERS or pa.types.is_decimal(wider)
    return is_number and widens(narrower, wider) and not (is_key and pa.types.is_floating(wider))


def _avro(type_: pa.DataType) -> Any:
    if type_ in _NUMBERS:
        return _NUMBERS[type_]
    return {"type": "bytes", "logicalType": "decimal", "precision": type_.precision, "scale": type_.scale}


def check_one_form(table: str, lake: pa.Schema, topic: str, fields: Fields, seen: Fields) -> None:
    """SchemaMismatch, naming column, units and scales, for a column that the table has as Connect sends it, if it had
    another unit or scale in one of the events: the table does not say which of them a value has.

    `fields` are the columns of the copy, `seen` those of the events, with each of their types.
    """
    by_name = {one["name"]: one for one in fields}
    for now in seen:
        of = by_name.get(now["name"])
        if of is None or _form(of) == _form(now):
            continue
        held = lake.field(now["name"]).type if now["name"] in lake.names else None
        if _is_as_sent(held, of, topic) or _is_as_sent(held, now, topic):
            raise SchemaMismatch(
                f"column {now['name']} of the events of topic {topic} was {_form_text(of)} and {_form_text(now)}, and "
                f"table {table} has it as it was sent{'' if held is None else f' ({held})'}, so its values have two "
                "meanings: exclude the column (Debezium's column.exclude.list, and without), write the table again "
                "with a type that says the unit or scale, or copy from the topic alone"
            )


def _is_as_sent(held: pa.DataType | None, event: dict[str, Any], topic: str) -> bool:
    """Whether the table has values as Connect sends them, or a text that may be of them, which mean another type."""
    sent = _type(wire_fields([event], is_json=False)[0], topic)
    return sent != _type(event, topic) and (held is None or held == sent or pa.types.is_string(held))


def _form(event: dict[str, Any]) -> tuple[Any, ...]:
    """What a value as Connect sends it means: all of the type but a decimal's precision."""
    kind = event["type"][1]
    own = {name: value for name, value in kind.items() if name != "precision"} if _is_named(kind) else kind
    return own, event.get(CONNECT_NAME)


def _form_text(event: dict[str, Any]) -> str:
    kind = event["type"][1]
    if not _is_named(kind):
        return str(kind)
    if kind["logicalType"] == "decimal":
        return f"decimal({kind['precision']}, {kind['scale']})"
    return str(event.get(CONNECT_NAME, kind["logicalType"]))


def _is_named(kind: Any) -> bool:
    return isinstance(kind, dict) and "logicalType" in kind


def copied_rows(batch: pa.RecordBatch, fields: Fields, where: str) -> pa.RecordBatch:
    """Changes of the table with the columns and types of the copy. UndecodableRecord, naming the column, for a value
    that is none of its type."""
    columns = columns_of(schema_text(fields), where)
    sent = columns_of(schema_text(wire_fields(fields, is_json=False)), where)
    is_sent = {one.name for one in sent if batch.schema.field(one.name).type == one.type}
    batch = converted(batch, [one for one in fields if one["name"] in is_sent], where, is_json=False)
    return aligned(batch, pa.schema([*(batch.schema.field(name) for name in (CHANGE_TYPE, CHANGE_SEQ)), *columns]))

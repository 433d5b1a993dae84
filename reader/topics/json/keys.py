"""The key columns of a record's key, needed for deletes, which have no value."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.reader.topics.json.texts import parse_json
from penstock.reader.topics.json.values import converter, value_text
from penstock.reader.topics.record.decoded import Unfit
from penstock.table.schema.avro import AvroField, EnumType, Primitive, RecordSchema, RecordType


class JsonKeys:
    """Decodes keys that are JSON objects of the key columns. A key of one column may also be its value, as JSON or as
    plain text.

    Immutable.
    """

    def __init__(self, key_fields: Sequence[str], table: RecordSchema) -> None:
        """key_fields: the columns of the key; `a.b` is a nested one."""
        own = table.by_name()
        tops = dict.fromkeys(name if name in own else name.partition(".")[0] for name in key_fields)
        self._paths = [(name,) if name in own else tuple(name.split(".")) for name in key_fields]
        self._columns: list[AvroField] = [own[name] for name in tops if name in own]
        self._converters = {field.name: converter(field.type) for field in self._columns}
        self.complete = bool(key_fields) and len(self._columns) == len(tops)

    def cells(self, key: bytes | None) -> dict[str, object]:
        """The key columns' values by name, converted. Unfit for a key that lacks one."""
        if not self.complete:
            raise Unfit("the deleted row is unknown: the table has no columns that make its keys")
        if key is None:
            raise Unfit("there is no key, so the deleted row is unknown")
        try:
            document = parse_json(key)
        except Unfit:
            document = None
        if isinstance(document, dict):
            return self.of_object(document)
        return self._of_scalar(key, document)

    def of_object(self, document: dict[str, object]) -> dict[str, object]:
        """The same for a parsed object."""
        for path in self._paths:
            value: object = document
            for name in path:
                value = value.get(name) if isinstance(value, dict) else None
            if value is None:
                raise Unfit(f"the key has no {'.'.join(path)}, which is part of the table's record key")
        return {field.name: self._converted(field, document[field.name]) for field in self._columns}

    def _of_scalar(self, key: bytes, document: object) -> dict[str, object]:
        if len(self._paths) != 1 or isinstance(self._columns[0].type, RecordType):
            names = ", ".join(".".join(path) for path in self._paths)
            raise Unfit(f"the key is not a JSON object of {names}")
        field = self._columns[0]
        if isinstance(document, list):
            raise Unfit(f"the key is {value_text(document)}, expected a value of column {field.name}")
        if document is None or (_is_text(field) and key[:1] != b'"'):
            document = _plain(key)  # `007`, `1e5` and `true` are texts as they are
        return {field.name: self._converted(field, document)}

    def _converted(self, field: AvroField, value: object) -> object:
        try:
            return self._converters[field.name](value)
        except Unfit as error:
            raise Unfit(f"the key's {field.name}: {error}") from None


def _is_text(field: AvroField) -> bool:
    return field.type in (Primitive("string"), Primitive("string", "uuid")) or isinstance(field.type, EnumType)


def _plain(key: bytes) -> str:
    """The key as plain text. Unfit for bytes that are not text."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        raise Unfit("the key is neither JSON nor text") from None
    if not text or any(letter < " " for letter in text):
        raise Unfit("the key is neither JSON nor text" if text else "the key is empty")
    return text

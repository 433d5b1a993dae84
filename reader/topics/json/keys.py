"""The key columns that a record's key tells: of deletes, which have no value to tell them."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.reader.topics.json.texts import parse_json
from penstock.reader.topics.json.values import converter, shown
from penstock.reader.topics.record.decoded import Unfit
from penstock.table.schema.avro import AvroField, EnumType, Primitive, RecordSchema, RecordType


class JsonKeys:
    """Reads keys that are JSON objects of the key columns, or for a key of one column its value: JSON, or plain text.

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
        """The key columns' values by name, as converted. Unfit for a key that does not tell every one."""
        if not self.complete:
            raise Unfit("nobody can tell what it deletes: the table has no columns that make its keys")
        if key is None:
            raise Unfit("there is no key, so nobody can tell what it deletes")
        try:
            document = parse_json(key)
        except Unfit:
            document = None
        if isinstance(document, dict):
            return self.of_object(document)
        return self._of_scalar(key, document)

    def of_object(self, document: dict[str, object]) -> dict[str, object]:
        """The same of a parsed object."""
        for path in self._paths:
            found: object = document
            for name in path:
                found = found.get(name) if isinstance(found, dict) else None
            if found is None:
                raise Unfit(f"the key has no {'.'.join(path)}, which is part of the table's record key")
        return {field.name: self._converted(field, document[field.name]) for field in self._columns}

    def _of_scalar(self, key: bytes, document: object) -> dict[str, object]:
        if len(self._paths) != 1 or isinstance(self._columns[0].type, RecordType):
            names = ", ".join(".".join(path) for path in self._paths)
            raise Unfit(f"the key is no JSON object of {names}")
        field = self._columns[0]
        if isinstance(document, list):
            raise Unfit(f"the key is {shown(document)}, expected a value of column {field.name}")
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
    """The key as plain text. Unfit for bytes that are none."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        raise Unfit("the key is neither JSON nor text") from None
    if not text or any(letter < " " for letter in text):
        raise Unfit("the key is neither JSON nor text" if text else "the key is empty")
    return text

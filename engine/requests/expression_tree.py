"""Decodes a `pyarrow.compute.Expression` into a tree.

PyArrow has no public tree of an expression. This module reads the form in which an expression is pickled: an Arrow IPC
file whose schema metadata lists the nodes in prefix order, and whose columns hold literals and function options. The
tree is checked: the expression that PyArrow builds of it again must have the same form, byte for byte.
"""

from __future__ import annotations

import contextlib
import operator
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import ConfigurationError

_SHOWN_CHARS: Final = 200
_MAX_NODES: Final = 100_000
_ERRORS: Final = (pa.ArrowException, LookupError, ValueError, TypeError, AttributeError, struct.error)


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a field inside a struct column."""

    path: tuple[str, ...]
    """The column's name, then the names of nested fields."""


@dataclass(frozen=True, slots=True)
class Value:
    """A literal."""

    scalar: pa.Scalar
    """Its value and type."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a compute function."""

    function: str
    """The name of the function in Arrow."""
    arguments: tuple[Node, ...]
    """The arguments, in order."""
    options: pa.StructScalar | None
    """The options of the function; None if it has none."""

    def option(self, name: str) -> Any:
        """The option as a scalar; None if the function has no such option."""
        return None if self.options is None or name not in self.options else self.options[name]


Node = Field | Value | Call


def tree_of(expression: pc.Expression) -> Node:
    """The tree of the expression. ConfigurationError if it has a function, a literal or a reference that this module
    does not know."""
    try:
        form = _pickled(expression)
        tree = _decoded(form)
        same = _pickled(expression_of(tree)).equals(form)
    except _ERRORS as error:
        raise _unknown(expression, str(error).partition("\n")[0]) from None
    if not same:
        raise _unknown(expression, "its parts do not form the same expression again")
    return tree


def known_terms_of(expression: pc.Expression) -> list[Node]:
    """The terms of the expression's conjunction that this module knows, in order; the others are left out."""
    try:
        terms = terms_of(_decoded(_pickled(expression)), "and_kleene")
    except _ERRORS:
        return []
    whole = str(expression)
    known: list[Node] = []
    for term in terms:
        with contextlib.suppress(*_ERRORS):
            built = expression_of(term)
            if str(built) in whole and _decoded(_pickled(built)) == term:
                known.append(term)
    return known


def columns_of(expression: pc.Expression) -> frozenset[str] | None:
    """The columns that the expression names; None if its form is unknown."""
    columns = set()
    try:
        with pa.ipc.open_file(_pickled(expression)) as file:
            parts = _metadata(file.get_batch(0).schema)
        for kind, text in parts:
            if kind == "field_ref":
                columns.add(text)
            elif kind == "nested_field_ref":
                path = [next(parts) for _ in range(int(text))]
                if any(part != "field_ref" for part, _ in path):
                    return None
                columns.add(path[0][1])
            elif kind not in ("call", "options", "end", "literal"):
                return None
    except (*_ERRORS, StopIteration):
        return None
    return frozenset(columns)


def terms_of(tree: Node, function: str) -> list[Node]:
    """The terms of a chain of `and_kleene` or `or_kleene`, in order."""
    terms: list[Node] = []
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, Call) and node.function == function and len(node.arguments) == 2:
            pending += reversed(node.arguments)
        else:
            terms.append(node)
    return terms


def expression_of(tree: Node) -> pc.Expression:
    """The expression of a tree. LookupError for a function that this module does not know."""
    built: list[pc.Expression] = []
    pending: list[tuple[Node, bool]] = [(tree, False)]
    while pending:  # without recursion: a chain of ORs is as deep as it is long
        node, arguments_are_built = pending.pop()
        match node:
            case Field(path):
                built.append(pc.field(*path))
            case Value(scalar):
                built.append(pc.scalar(scalar))
            case Call(function, arguments) if arguments_are_built:
                values = [built.pop() for _ in arguments]
                built.append(_BUILD[function](node, *reversed(values)))
            case Call(_, arguments):
                pending.append((node, True))
                pending += [(argument, False) for argument in reversed(arguments)]
    return built.pop()


def _is_in(call: Call, values: pc.Expression) -> pc.Expression:
    return values.isin(call.option("value_set").values)


def _is_null(call: Call, values: pc.Expression) -> pc.Expression:
    if call.options is None:
        return pc.is_null(values)
    return values.is_null(nan_is_null=call.option("nan_is_null").as_py())


def _matched(build: Callable[..., pc.Expression]) -> Callable[..., pc.Expression]:
    """A function with a pattern."""

    def built(call: Call, texts: pc.Expression) -> pc.Expression:
        pattern = call.option("pattern").as_py()
        text = pattern.decode() if isinstance(pattern, bytes) else pattern
        return build(texts, pattern=text, ignore_case=call.option("ignore_case").as_py())

    return built


def _binary(build: Callable[[Any, Any], pc.Expression]) -> Callable[..., pc.Expression]:
    return lambda _, left, right: build(left, right)


_BUILD: Final[dict[str, Callable[..., pc.Expression]]] = {
    "equal": _binary(operator.eq),
    "not_equal": _binary(operator.ne),
    "less": _binary(operator.lt),
    "less_equal": _binary(operator.le),
    "greater": _binary(operator.gt),
    "greater_equal": _binary(operator.ge),
    "and_kleene": _binary(operator.and_),
    "or_kleene": _binary(operator.or_),
    "if_else": lambda _, condition, left, right: pc.if_else(condition, left, right),
    "invert": lambda _, term: ~term,
    "is_in": _is_in,
    "is_null": _is_null,
    "is_valid": lambda _, values: values.is_valid(),
    "is_nan": lambda _, values: values.is_nan() if hasattr(values, "is_nan") else pc.is_nan(values),
    "starts_with": _matched(pc.starts_with),
    "ends_with": _matched(pc.ends_with),
    "match_substring": _matched(pc.match_substring),
    "match_like": _matched(pc.match_like),
}
"""Builds the expression of a call from the call and its arguments."""


def _decoded(form: pa.Buffer) -> Node:
    """The tree in a pickled expression. ValueError if its entries are not those of one expression."""
    with pa.ipc.open_file(form) as file:
        batch = file.get_batch(0)
    entries = iter(list(_metadata(batch.schema)))
    open_calls: list[tuple[str, list[Node], list[pa.StructScalar]]] = []
    for kind, text in entries:
        node: Node
        match kind:
            case "call":
                open_calls.append((text, [], []))
                continue
            case "options" if open_calls:
                open_calls[-1][2].append(batch.column(int(text))[0])
                continue
            case "end" if open_calls and open_calls[-1][0] == text:
                function, arguments, options = open_calls.pop()
                node = Call(function, tuple(arguments), options[0] if options else None)
            case "field_ref":
                node = Field((text,))
            case "nested_field_ref":
                path = [next(entries, ("", "")) for _ in range(int(text))]
                if any(part != "field_ref" for part, _ in path):
                    raise ValueError("a nested reference has parts that are not names")
                node = Field(tuple(name for _, name in path))
            case "literal":
                node = Value(batch.column(int(text))[0])
            case _:
                raise ValueError(f"unknown part {kind!r}")
        if not open_calls:
            if next(entries, None) is not None:
                raise ValueError("parts after its end")
            return node
        open_calls[-1][1].append(node)
    raise ValueError("it has no end")


def _pickled(expression: pc.Expression) -> pa.Buffer:
    _, (form,) = expression.__reduce__()
    if not isinstance(form, pa.Buffer):
        raise TypeError(f"got a {type(form).__name__}, expected a buffer")
    return form


def _metadata(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """The (key, value) pairs of the schema's metadata, in order. PyArrow returns them as a dict, which has each key
    once. The layout is that of Message.fbs and Schema.fbs of Arrow."""
    message = memoryview(schema.serialize()).cast("B")[8:]  # after the continuation marker and the length
    header = _reference(message, _field(message, _table(message, 0), 2))
    pairs = _reference(message, _field(message, header, 2))
    (count,) = struct.unpack_from("<I", message, pairs)
    if count > _MAX_NODES:
        raise ValueError(f"it has {count} parts, at most {_MAX_NODES} are allowed")
    for number in range(count):
        pair = _reference(message, pairs + 4 + 4 * number)
        yield _text(message, _field(message, pair, 0)), _text(message, _field(message, pair, 1))


def _table(message: memoryview, place: int) -> int:
    return _reference(message, place)


def _reference(message: memoryview, place: int) -> int:
    """The place to which the offset at `place` refers."""
    (offset,) = struct.unpack_from("<I", message, place)
    return place + int(offset)


def _field(message: memoryview, table: int, number: int) -> int:
    """The place of field `number` of a table. LookupError if it is not set."""
    (back,) = struct.unpack_from("<i", message, table)
    slots = table - int(back)
    (size,) = struct.unpack_from("<H", message, slots)
    if 4 + 2 * number >= size:
        raise LookupError(f"no field {number}")
    (offset,) = struct.unpack_from("<H", message, slots + 4 + 2 * number)
    if offset == 0:
        raise LookupError(f"no field {number}")
    return table + int(offset)


def _text(message: memoryview, place: int) -> str:
    start = _reference(message, place)
    (length,) = struct.unpack_from("<I", message, start)
    return bytes(message[start + 4 : start + 4 + length]).decode()


def _unknown(expression: pc.Expression, reason: str) -> ConfigurationError:
    shown = str(expression)
    shown = shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}…"
    known = ", ".join(_BUILD)
    return ConfigurationError(
        f"the expression {shown} cannot be a filter ({reason}): it may have fields by name, literals and the functions "
        f"{known}"
    )

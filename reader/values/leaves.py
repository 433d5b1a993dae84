"""Reads and changes the values in arrays, also those of nested ones. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa


def leaf_types(kind: pa.DataType) -> Iterator[pa.DataType]:
    """The types of the leaves of a column, in their order."""
    if pa.types.is_map(kind):
        yield from leaf_types(kind.key_type)
        yield from leaf_types(kind.item_type)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from leaf_types(kind.value_type)
    elif pa.types.is_struct(kind):
        for place in range(kind.num_fields):
            yield from leaf_types(kind.field(place).type)
    else:
        yield kind


def leaves(array: pa.Array) -> Iterator[pa.Array]:
    """The leaves in the order of the type, as `with_leaves` passes them."""
    kind = array.type
    if pa.types.is_map(kind):
        yield from leaves(array.keys)
        yield from leaves(array.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from leaves(array.values)
    elif pa.types.is_struct(kind):
        for place in range(kind.num_fields):
            yield from leaves(array.field(place))
    else:
        yield array


def with_leaves(array: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """The array with changed leaves. `change` gets them in the order of the type, and keeps type and length."""
    kind = array.type
    if pa.types.is_map(kind):
        children = [with_leaves(array.keys, change), with_leaves(array.items, change)]
        entries = pa.StructArray.from_arrays(children, fields=[kind.key_field, kind.item_field])
        return _rebuilt(array, entries)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _rebuilt(array, with_leaves(array.values, change))
    if pa.types.is_struct(kind):
        children = [with_leaves(array.field(place), change) for place in range(kind.num_fields)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    return change(array)


def with_values(array: pa.Array, kind: type[np.signedinteger], change: Callable[[np.ndarray], np.ndarray]) -> pa.Array:
    """The array with changed values and its own type, nulls and offset. `kind` is the NumPy type of its
    values."""
    validity, data = array.buffers()
    end = array.offset + len(array)
    values = np.frombuffer(data, kind, end).copy()
    values[array.offset :] = change(values[array.offset :])
    return pa.Array.from_buffers(
        array.type, len(array), [validity, pa.py_buffer(values)], array.null_count, array.offset
    )


def _rebuilt(array: pa.Array, child: pa.Array) -> pa.Array:
    """A list or map array with another child and its own type, validity, offsets and offset."""
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(array.type, len(array), [validity, offsets], offset=array.offset, children=[child])

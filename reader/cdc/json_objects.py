"""Writes rows as JSON objects by the compiled kernel: texts of columns in, one text per row out. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.reader.kernels import json_text as kernel

RAW, QUOTED, NUMBER = kernel.RAW, kernel.QUOTED, kernel.NUMBER
_MOST_BYTES: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Member:
    """One member of each object."""

    head: str
    """Its name in quotes, and the colon."""
    values: pa.Array
    """The values as text; null for null."""
    form: int
    """`RAW` unchanged, `QUOTED` as JSON strings, `NUMBER` floats as Arrow writes them."""


def objects(members: Sequence[Member], rows: int, comma: str, *, nulls: bool) -> pa.Array | None:
    """`{head value, head value}` for each row. A null is `null`; without `nulls` it is left out with its head.

    None if the result would not fit a text array.
    """
    offsets = np.zeros((len(members), rows + 1), np.int64)
    valid = np.ones((len(members), rows), np.uint8)
    parts: list[np.ndarray] = []
    filled = 0
    for place, member in enumerate(members):
        values = member.values
        _, bounds, data = values.buffers()
        own = np.frombuffer(bounds, np.int32)[values.offset : values.offset + rows + 1].astype(np.int64)
        offsets[place] = own - own[0] + filled
        if data is not None:
            parts.append(np.frombuffer(data, np.uint8)[own[0] : own[-1]])
        filled = int(offsets[place, -1])
        if values.null_count:
            valid[place] = values.is_valid().to_numpy(zero_copy_only=False)
    text = np.concatenate([*parts, np.zeros(kernel.OVERCOPY, np.uint8)])
    forms = np.array([member.form for member in members], np.uint8)
    heads = [f"{comma}{member.head}".encode() for member in members]
    names = np.frombuffer(b"".join(heads) + bytes(kernel.OVERCOPY), np.uint8).copy()
    name_offsets = np.concatenate([[0], np.cumsum([len(head) for head in heads])]).astype(np.int64)
    between = len(comma.encode())
    ends = np.zeros(rows + 1, np.int64)
    kernel.measure(text, offsets, valid, forms, name_offsets, between, nulls, ends)
    if int(ends[-1]) > _MOST_BYTES:
        return None
    out = np.empty(int(ends[-1]) + kernel.OVERCOPY, np.uint8)
    kernel.write(text, offsets, valid, forms, names, name_offsets, between, nulls, ends, out)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(out))

"""Rewrites a jar so that its classes refer to other classes by their names in a Hudi bundle, following the class file
format. `streamer_environment` selects the jars."""

from __future__ import annotations

import pathlib
import re
import struct
import zipfile
from collections.abc import Sequence
from typing import Final

TEXT: Final = 1
TWO_PLACES: Final = (5, 6)
"""Long and double: the next number of the pool is unused."""
SIZES: Final = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
"""Bytes after the tag of each kind of constant except texts (JVM specification §4.4)."""
POOL: Final = 8
"""Offset of the constant pool, after magic number and version."""


def move(jar: pathlib.Path, into: pathlib.Path, packages: Sequence[str], below: str) -> None:
    """Writes a copy of the jar in which every name of the packages (`com/example`) begins with `below`."""
    name = re.compile(rb"(?:(?<![\w/$])|(?<=L))(?=(?:%s)/)" % b"|".join(re.escape(one.encode()) for one in packages))
    partial = into.with_suffix(".partial")
    with zipfile.ZipFile(jar) as before, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as after:
        for entry in before.infolist():
            data = before.read(entry)
            if entry.filename.endswith(".class"):
                data = moved(data, name, below.encode() + b"/")
            after.writestr(entry, data)
    partial.replace(into)


def moved(data: bytes, name: re.Pattern[bytes], below: bytes) -> bytes:
    """Rewrites a class file: names are only in the texts of its constant pool, and no offset refers to them."""
    (count,) = struct.unpack_from(">H", data, POOL)
    parts, at, number = [data[: POOL + 2]], POOL + 2, 1
    while number < count:
        tag = data[at]
        number += 2 if tag in TWO_PLACES else 1
        if tag == TEXT:
            end = at + 3 + struct.unpack_from(">H", data, at + 1)[0]
            text = name.sub(below, data[at + 3 : end])
            parts.append(struct.pack(">BH", TEXT, len(text)) + text)
        else:
            end = at + 1 + SIZES[tag]
            parts.append(data[at:end])
        at = end
    return b"".join(parts) + data[at:]

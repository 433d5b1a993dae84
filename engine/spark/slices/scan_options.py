"""The options in which a scan that was planned before its load reaches the data source and `explain`. Pure.

They are part of no interface: only this package writes and reads them.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from penstock.engine.spark.task.input_partitions import PackedSlot, packed_splits
from penstock.proto.codec.serialized import encode_scan, encode_split
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.splits import Scan, Split
from penstock.table.storage.uris import uri_without_credentials

PLANNED: Final = "_penstockplannedslots"
"""The option with the splits, in the lower case in which Spark passes names."""
DESCRIBED: Final = "_penstockscan"
"""The option with the `ScanDescription`."""
MAX_CONTENT_BYTES: Final = 256 << 20
"""The most bytes of splits in an option, before they are compressed: several hundred thousand splits."""


@dataclass(frozen=True, slots=True)
class ScanDescription:
    """A planned scan, stated in each of its parts."""

    scan_id: str
    """The same in all parts of a scan, and in no other scan."""
    options: Mapping[str, str]
    """The options of the scan, as they were given, with the table as `path`."""
    spark_files: int
    """The number of files that Spark's Parquet reader reads."""
    penstock_splits: int
    """The number of splits that Penstock reads."""

    def as_option(self) -> str:
        """The description as text."""
        return json.dumps([self.scan_id, dict(self.options), self.spark_files, self.penstock_splits])

    @classmethod
    def of(cls, text: str) -> ScanDescription:
        """The description in an option that `as_option` returned."""
        scan_id, options, spark_files, penstock_splits = json.loads(text)
        return cls(scan_id, options, spark_files, penstock_splits)


def as_option(
    scan: Scan, splits: Sequence[Split], cores: int, requested: int, max_bytes: int = MAX_CONTENT_BYTES
) -> str | None:
    """The splits in slots (`packed_splits`), as text; None if they are more than `max_bytes`.

    The scan has the table's URI without credentials: tasks have their own.
    """
    slots = [
        [_text(encode_split(splits[index])) for index in slot] for slot in packed_splits(scan, splits, cores, requested)
    ]
    shared = encode_scan(replace(scan, base_path=uri_without_credentials(scan.base_path)))
    content = json.dumps({"scan": _text(shared), "slots": slots}).encode()
    return _text(zlib.compress(content, 1)) if len(content) <= max_bytes else None


def planned_slots(
    options: Mapping[str, str], max_bytes: int = MAX_CONTENT_BYTES
) -> tuple[dict[str, str], list[PackedSlot] | None]:
    """The other options, and the slots; None if the option is not given.

    ConfigurationError: the text is damaged, or holds more than `max_bytes`. No more than that is decompressed.
    """
    others = {name: value for name, value in options.items() if name.lower() not in (PLANNED, DESCRIBED)}
    text = next((value for name, value in options.items() if name.lower() == PLANNED), None)
    if text is None:
        return others, None
    try:
        content = json.loads(_decompressed(base64.b64decode(text, validate=True), max_bytes))
        scan = base64.b64decode(content["scan"])
        slots = [PackedSlot(scan, tuple(base64.b64decode(split) for split in slot)) for slot in content["slots"]]
    except (ValueError, binascii.Error, zlib.error, KeyError, TypeError) as error:
        raise ConfigurationError(f"option {PLANNED} is written by Penstock alone, and is damaged: {error}") from None
    return others, slots


def _decompressed(data: bytes, max_bytes: int) -> bytes:
    """ValueError for data that is cut short, followed by something else, or larger than `max_bytes`."""
    inflate = zlib.decompressobj()
    content = inflate.decompress(data, max_bytes + 1)
    if len(content) > max_bytes:
        raise ValueError(f"it decompresses to more than {max_bytes} bytes")
    if not inflate.eof or inflate.unused_data:
        raise ValueError("it is cut short, or followed by something else")
    return content


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")

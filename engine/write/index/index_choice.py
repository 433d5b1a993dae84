"""The index of a write: the one that is given, or the one that `create_table` stored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from penstock.proto.errors import ConfigurationError, UnsupportedFeature
from penstock.table.config.properties import TableProperties
from penstock.table.files.buckets import BUCKETS, INDEX_TYPE, MAX_BUCKETS
from penstock.table.storage.uris import redacted_uri

_LIKELY_BUCKETS: Final = 100_000
"""A random file id begins with 8 digits below it once in 50,000 times."""
_IN_METADATA: Final = "its keys are in the metadata table, which is not written yet"
_REFUSED: Final = {
    "HBASE": "its keys are in HBase, outside of the table",
    "FLINK_STATE": "its keys are in the state of a Flink job, outside of the table",
    "INMEMORY": "its keys are in the memory of its writer",
    "RECORD_INDEX": _IN_METADATA,
    "GLOBAL_RECORD_LEVEL_INDEX": _IN_METADATA,
    "RECORD_LEVEL_INDEX": _IN_METADATA,
}


@dataclass(frozen=True, slots=True)
class BucketIndex:
    """The hash of a key determines its file group."""

    buckets: int
    """Buckets of a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyIndex:
    """The base file that holds a key determines its file group."""

    reads_footers: bool = False
    """Whether key ranges and bloom filters in footers exclude files."""
    is_global: bool = False
    """Whether a key is unique in the table, not in its partition."""
    moves_keys: bool = True
    """Of a global index: whether a row of another partition moves its key there; else it is written where the key is
    (Hudi `hoodie.simple.index.update.partition.path`, `hoodie.bloom.index.update.partition.path`)."""


Index = BucketIndex | KeyIndex

KEY_INDEXES: Final = {
    "SIMPLE": KeyIndex(),
    "BLOOM": KeyIndex(reads_footers=True),
    "GLOBAL_SIMPLE": KeyIndex(is_global=True),
    "GLOBAL_BLOOM": KeyIndex(reads_footers=True, is_global=True),
}
"""By Hudi's name. All of them find keys in files that any other of them wrote."""
INDEX_NAMES: Final = ("bucket", *(name.lower() for name in KEY_INDEXES))
"""The names of `create_table` and `write`."""


@dataclass(frozen=True, slots=True)
class UncountedBuckets:
    """A bucket index whose number of buckets only the table's files tell."""


def chosen_index(
    index: str | None, buckets: int | None, properties: TableProperties, update_partition_path: bool | None = None
) -> Index | UncountedBuckets:
    """The index. ConfigurationError if neither the call nor the table names one, or if they contradict each other;
    UnsupportedFeature, with the reason, for an index that is not kept."""
    stored = properties.raw.get(INDEX_TYPE, "").strip().upper()
    stored_buckets = properties.raw.get(BUCKETS, "").strip()
    where = f"table {redacted_uri(properties.base_path)}"
    name = (index or stored).upper()
    if not name:
        raise ConfigurationError(
            f"{where} does not say which index its writers use, as Hudi stores none: give index='bucket' with the "
            f"number of buckets, or one of {', '.join(INDEX_NAMES[1:])}, as in all its writers; another index repeats "
            "rows"
        )
    refuse_other_index(name, where)
    if index and stored and index.upper() != stored:
        raise ConfigurationError(
            f"{where}: got index={index[:40]!r}, and the table was created with {stored.lower()!r}"
        )
    chosen = KEY_INDEXES.get(name)
    if update_partition_path is not None and not (chosen and chosen.is_global):
        raise ConfigurationError(
            f"{where}: got update_partition_path={update_partition_path} with index {name.lower()[:40]!r}: only a "
            "global index knows the partition of a key"
        )
    if chosen is not None:
        if buckets is not None:
            raise ConfigurationError(f"{where}: got buckets={buckets} with index {name.lower()!r}, which has none")
        return replace(chosen, moves_keys=update_partition_path is not False)
    if name != "BUCKET":
        raise ConfigurationError(f"{where}: got index={name.lower()[:40]!r}, expected one of {', '.join(INDEX_NAMES)}")
    number = _buckets(buckets, stored_buckets, where)
    return UncountedBuckets() if number is None else BucketIndex(number)


def refuse_other_index(index: str, where: str) -> None:
    """UnsupportedFeature, beginning with `where`, with the reason, for an index of Hudi that Penstock does not keep."""
    if reason := _REFUSED.get(index.upper()):
        raise UnsupportedFeature(f"{where}: index {index.lower()!r} cannot be written: {reason}")


def _buckets(given: int | None, stored: str, where: str) -> int | None:
    known = int(stored) if stored.isascii() and stored.isdigit() and len(stored) < 10 else None
    if given is not None and known is not None and given != known:
        raise ConfigurationError(f"{where}: got buckets={given}, and the table was created with {known}")
    buckets = known if given is None else given
    if buckets is not None and not 1 <= buckets < MAX_BUCKETS:
        raise ConfigurationError(f"{where}: got buckets={buckets}, expected 1 to {MAX_BUCKETS - 1}")
    return buckets

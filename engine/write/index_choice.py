"""The index of a write: the one that is given, or the one that `create_table` stored."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.write.settings import BUCKETS, INDEX_TYPE
from penstock.proto.errors import ConfigurationError, UnsupportedFeature
from penstock.table.config.properties import TableProperties
from penstock.table.storage.filesystem import redacted_uri
from penstock.writer.index.bucket import MAX_BUCKETS

_REFUSED = {
    "HBASE": "its keys are in HBase, outside of the table",
    "BLOOM": "it is not written yet; writers with a bloom index can go on with tables of the simple index",
    "GLOBAL_BLOOM": "it is not written yet",
    "GLOBAL_SIMPLE": "it is not written yet",
    "RECORD_INDEX": "its keys are in the metadata table, which is not written yet",
    "GLOBAL_RECORD_LEVEL_INDEX": "its keys are in the metadata table, which is not written yet",
    "RECORD_LEVEL_INDEX": "its keys are in the metadata table, which is not written yet",
}


@dataclass(frozen=True, slots=True)
class BucketIndex:
    """The hash of a key determines its file group."""

    buckets: int
    """Buckets of a partition."""


@dataclass(frozen=True, slots=True)
class SimpleIndex:
    """The base file that holds a key determines its file group."""


Index = BucketIndex | SimpleIndex


@dataclass(frozen=True, slots=True)
class UncountedBuckets:
    """A bucket index whose number of buckets only the table's files tell."""


def chosen_index(index: str | None, buckets: int | None, properties: TableProperties) -> Index | UncountedBuckets:
    """The index. ConfigurationError if neither the call nor the table names one, or if they contradict each other;
    UnsupportedFeature, with the reason, for an index that is not kept."""
    stored = properties.raw.get(INDEX_TYPE, "").strip().upper()
    stored_buckets = properties.raw.get(BUCKETS, "").strip()
    where = f"table {redacted_uri(properties.base_path)}"
    name = (index or stored).upper()
    if not name:
        raise ConfigurationError(
            f"{where} does not say which index its writers use, as Hudi stores none: give index='bucket' with the "
            "number of buckets, or index='simple', as in all its writers; another index repeats rows"
        )
    refuse_other_index(name, where)
    if index and stored and index.upper() != stored:
        raise ConfigurationError(
            f"{where}: got index={index[:40]!r}, and the table was created with {stored.lower()!r}"
        )
    if name == "SIMPLE":
        if buckets is not None:
            raise ConfigurationError(f"{where}: got buckets={buckets} with a simple index, which has none")
        return SimpleIndex()
    if name != "BUCKET":
        raise ConfigurationError(f"{where}: got index={name.lower()[:40]!r}, expected 'bucket' or 'simple'")
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

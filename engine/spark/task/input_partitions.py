"""The slots that Spark tasks read, the settings of reading, and the packing of an embedded plan's splits into slots.
Pure.

Slots are pickled. They contain no client, option or secret, and their `repr`, which Spark logs, contains no data.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.proto.model.access import NO_ACCESS, ServerAccess
from penstock.proto.retry import RetryPolicy
from penstock.table.storage.uris import uri_scheme

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from penstock.proto.model.hybrid import KafkaAccess
    from penstock.proto.model.splits import Scan, Split
    from penstock.proto.model.streams import Watermark

SLOT_BYTES: Final = 128 << 20
"""The target maximum of a slot; a larger split is a slot of its own."""
OPEN_COST_BYTES: Final = 4 << 20
"""The weight of opening a split, so that many tiny splits count; Spark's own default for files."""
LOCAL_OPEN_COST_BYTES: Final = 256 << 10
"""The same on a local disk, where opening a file takes a millisecond and a task about 17 ms of processor time."""
TASK_COST_BYTES: Final = 16 << 20
"""The target minimum of a task: starting one takes about as long as reading this, or four tiny splits."""
MAX_SLOTS: Final = 10_000
"""The driver's JVM holds the pickled slots, so a larger plan has larger slots instead of more."""


@dataclass(frozen=True, slots=True)
class PackedSlot:
    """A slot planned in the driver."""

    scan: bytes = field(repr=False)
    """The encoded scan."""
    splits: tuple[bytes, ...] = field(repr=False)
    """The encoded splits, in commit order."""
    watermark_us: int | None = None
    """The watermark for the rows of the micro-batch; None: unknown, or not requested."""


@dataclass(frozen=True, slots=True)
class PulledSlot:
    """A slot of a plan on a server. Its task requests one split after the other."""

    server: str
    """HOST:PORT of the server."""
    plan_id: str
    """The id of the plan."""
    slot: int
    """The number of the slot in the plan."""
    access: ServerAccess = field(default=NO_ACCESS, repr=False)
    """The files with certificates and token for the connection."""
    watermark_us: int | None = None
    """The watermark for the rows of the micro-batch; None: unknown, or not requested."""


@dataclass(frozen=True, slots=True)
class MarkerSlot:
    """One row that is not in the table: it carries a watermark to Spark when no other row does."""

    watermark: Watermark
    """The watermark of the micro-batch."""


Slot = PackedSlot | PulledSlot | MarkerSlot


@dataclass(frozen=True, slots=True)
class SlotReading:
    """The settings with which a reader reads every slot."""

    schema: StructType
    """The schema that Spark expects for the table's columns."""
    limit_rows: int | None
    """The number of rows after which a split stops; None: no limit."""
    batch_rows: int
    """The maximum number of rows in a batch."""
    event_time: str
    """The column whose highest value is reported; '' for none."""
    watermarked: StructType | None = None
    """The whole schema, with the columns of the watermark; None without them."""
    event_time_unit: str | None = None
    """The unit of an event-time column of plain numbers."""
    narrows: bool = False
    """Whether columns may have been widened since the schema was fixed."""
    access: KafkaAccess | None = field(default=None, repr=False)
    """The access to the topic of a hybrid stream. The task resolves its references to secrets."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    """The retries of storage and server calls, the same as in the driver."""
    mergers: tuple[tuple[str, str], ...] = ()
    """The functions that merge records (option `mergers`)."""
    skips_lost: bool = False
    """Whether a split ends, with a warning, at a file that no longer exists (`failOnDataLoss=false`)."""


def packed_splits(scan: Scan, splits: Sequence[Split], cores: int, requested: int) -> list[tuple[int, ...]]:
    """The splits of a plan in slots, by index in commit order (`pack`). On a local disk each log is an opening too."""
    local = uri_scheme(scan.base_path) in ("", "file") and scan.topic is None
    log_bytes = LOCAL_OPEN_COST_BYTES if local else 0
    return pack([split.size_bytes + log_bytes * len(split.logs) for split in splits], cores, requested, local=local)


def pack(sizes_bytes: Sequence[int], cores: int, requested: int = 0, *, local: bool = False) -> list[tuple[int, ...]]:
    """Distributes splits, by index in commit order, over slots of about equal weight.

    Returns `requested` slots. If that is 0, one slot for each core as long as each has TASK_COST_BYTES (opening a split
    counts as OPEN_COST_BYTES), and more if SLOT_BYTES requires them (there an opening of `local` files counts as
    LOCAL_OPEN_COST_BYTES). There are never more slots than splits or MAX_SLOTS, and no slot is empty. Each index occurs
    once; indexes ascend inside a slot, and slots by their first index. The result is deterministic.
    """
    if not sizes_bytes:
        return []
    worth = (sum(sizes_bytes) + OPEN_COST_BYTES * len(sizes_bytes)) // TASK_COST_BYTES
    weights = [size + (LOCAL_OPEN_COST_BYTES if local else OPEN_COST_BYTES) for size in sizes_bytes]
    useful = max(min(cores, worth), -(-sum(weights) // SLOT_BYTES))
    count = min(len(weights), MAX_SLOTS, requested or useful)
    lightest = [(0, slot) for slot in range(count)]
    members: list[list[int]] = [[] for _ in range(count)]
    for index in sorted(range(len(weights)), key=lambda i: (-weights[i], i)):
        weight, slot = heapq.heappop(lightest)
        members[slot].append(index)
        heapq.heappush(lightest, (weight + weights[index], slot))
    return sorted(tuple(sorted(m)) for m in members)

"""What a Spark task is given: a slot, small and pickled, and how it is read; and how an embedded plan's splits are
packed into slots.

Pure: values and one packing rule. A slot holds no client, no option, no secret; its `repr` (Spark logs it) no data.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.proto.model.access import NO_ACCESS, ServerAccess
from penstock.proto.retry import RetryPolicy

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from penstock.proto.model.hybrid import KafkaAccess
    from penstock.proto.model.streams import Watermark

SLOT_BYTES: Final = 128 << 20
"""What a slot should hold at most, unless one split alone is larger."""
OPEN_COST_BYTES: Final = 4 << 20
"""The weight of opening a split, so that many tiny splits count; Spark's own default for files."""
TASK_COST_BYTES: Final = 16 << 20
"""What a task should hold at least: starting one takes about as long as reading this, or four tiny splits."""
MAX_SLOTS: Final = 10_000
"""Pickled slots live in the driver's JVM; beyond this many they grow larger instead."""


@dataclass(frozen=True, slots=True)
class PackedSlot:
    """A slot planned in the driver: the encoded scan, and its encoded splits in commit order."""

    scan: bytes = field(repr=False)
    splits: tuple[bytes, ...] = field(repr=False)
    watermark_us: int | None = None
    """That of the slot's micro-batch, for its rows to carry; None: not known, or none is asked for."""


@dataclass(frozen=True, slots=True)
class PulledSlot:
    """A slot of a plan that a server holds; its task asks there for one split after the other."""

    server: str
    plan_id: str
    slot: int
    access: ServerAccess = field(default=NO_ACCESS, repr=False)
    watermark_us: int | None = None


@dataclass(frozen=True, slots=True)
class MarkerSlot:
    """One row that is none of the table's: it carries a watermark to Spark where no other row does."""

    watermark: Watermark


Slot = PackedSlot | PulledSlot | MarkerSlot


@dataclass(frozen=True, slots=True)
class SlotReading:
    """How a reader reads every slot: the schema Spark expects of the table, the rows after which a split stops (None:
    never), rows of a batch, the column whose highest value is reported ('': none).

    `watermarked` is the whole schema with the columns of a watermark, None without them; `event_time_unit` that of a
    column of plain numbers; `narrows`: columns may have been widened since the schema was fixed. `access`: to the topic
    that a hybrid stream goes on in; references to secrets in it are resolved in the task. `retry`: how long a task
    waits for storage or a server, as the driver does. `skips_lost`: a split ends, with a warning, where a file of it is
    gone (`failOnDataLoss=false`).
    """

    schema: StructType
    limit_rows: int | None
    batch_rows: int
    event_time: str
    watermarked: StructType | None = None
    event_time_unit: str | None = None
    narrows: bool = False
    access: KafkaAccess | None = field(default=None, repr=False)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    skips_lost: bool = False


def pack(sizes_bytes: Sequence[int], cores: int, requested: int = 0) -> list[tuple[int, ...]]:
    """Splits (by index, in commit order) shared out to slots of about equal weight.

    `requested` slots; or if that is 0, one for each core as long as each holds TASK_COST_BYTES (an opening weighs
    OPEN_COST_BYTES), and as many more as SLOT_BYTES asks for. Never more than splits or MAX_SLOTS, none empty. Every
    index once; indices ascend inside a slot, slots by their first index. Same arguments: same slots. No splits: no
    slots.
    """
    if not sizes_bytes:
        return []
    weights = [size + OPEN_COST_BYTES for size in sizes_bytes]
    useful = max(min(cores, sum(weights) // TASK_COST_BYTES), -(-sum(weights) // SLOT_BYTES))
    count = min(len(weights), MAX_SLOTS, requested or useful)
    lightest = [(0, slot) for slot in range(count)]
    members: list[list[int]] = [[] for _ in range(count)]
    for index in sorted(range(len(weights)), key=lambda i: (-weights[i], i)):
        weight, slot = heapq.heappop(lightest)
        members[slot].append(index)
        heapq.heappush(lightest, (weight + weights[index], slot))
    return sorted(tuple(sorted(m)) for m in members)

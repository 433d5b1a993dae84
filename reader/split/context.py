"""What all steps of a read share: scan, split, columns, storage, report and options."""

from __future__ import annotations

from dataclasses import field

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.splits import Scan, Split
from penstock.proto.value_classes import dataclass
from penstock.reader.kernels.choice import KERNELS, KernelChoice
from penstock.reader.split.emit import BATCH_BYTES, BatchSize
from penstock.reader.split.read_schema import ReadSchema
from penstock.reader.split.report import SplitTally
from penstock.reader.split.shared_log import SharedLog
from penstock.table.storage.filesystem import Storage

MAX_BATCH_ROWS = 1 << 24


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a split is read. But for `mergers`, options never change the rows that are returned."""

    batch_rows: int = 32768
    """The most rows of a batch, 1 to 2^24."""
    compiled: bool | None = None
    """Whether the compiled kernels are used; None: as `kernels.choice` decides. Without them fastavro and Arrow
    functions do the same work."""
    mergers: tuple[tuple[str, str], ...] = ()
    """The functions that the user registered for custom mergers and payload classes (`merge.mergers.Mergers`)."""
    is_chosen: bool = False
    """Whether `compiled` is the choice of `kernels.choice`: then the kernels do only what they do faster with the time
    to load them."""

    @property
    def by_kernels(self) -> bool:
        """Whether the compiled kernels are used, as they are without a choice."""
        return self.compiled is not False

    @property
    def matching(self) -> bool | KernelChoice:
        """Whether keys are matched by the kernel, or what decides it."""
        return KERNELS if self.is_chosen and self.by_kernels else self.by_kernels

    def decodes_by_kernels(self, size_bytes: int) -> bool:
        """Whether a list of deletes with so many bytes is decoded by the kernel, or a file that counts as so many
        checked."""
        return self.by_kernels and (not self.is_chosen or KERNELS.for_bytes(size_bytes))

    def __post_init__(self) -> None:
        if not 1 <= self.batch_rows <= MAX_BATCH_ROWS:
            raise ConfigurationError(f"batch rows {self.batch_rows}: expected 1 to {MAX_BATCH_ROWS}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitContext:
    """One read of one split. It is passed through all steps of the read: log, base file, merge and changes."""

    scan: Scan
    """The scan that the split belongs to."""
    split: Split
    """The split to read."""
    schema: ReadSchema
    """The columns to read."""
    storage: Storage
    """The storage of the table's files."""
    tally: SplitTally
    """Counts for the split's report."""
    options: ReadOptions = field(default_factory=ReadOptions)
    """How to read."""
    shared_log: SharedLog | None = None
    """What other reads of the same file group share; None for a read alone."""

    @property
    def batch_size(self) -> BatchSize:
        """The size of the batches to produce."""
        return BatchSize(self.options.batch_rows, BATCH_BYTES)

    @property
    def where(self) -> str:
        """Table and split, the beginning of error texts."""
        return f"table {self.scan.table}: split {self.split.split_id}"

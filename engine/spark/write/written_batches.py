"""The batches of streams that the commits of a table have: in each commit the name of the stream, the id of the query
and the number of the batch.

Source: Hudi `HoodieStreamingSink`, `CommitUtils.getValidCheckpointForCurrentWriter`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Final

from penstock.enumerator.handover.commit_offsets import SPARK_SINK
from penstock.enumerator.handover.offset_formats import parse_sink
from penstock.enumerator.handover.offsets import MalformedOffsets
from penstock.proto.errors import ConfigurationError
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.commits import CommitMetadata
from penstock.table.timeline.settled_reads import read_current

QUERY: Final = "penstock.streaming.query.id"
"""The key of the query's id in the metadata of a commit. A query keeps its id with its checkpoint."""


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """A batch that a commit has."""

    number: int
    """Its id."""
    query: str
    """The id of the query; '' if another writer than Penstock wrote it."""
    operation: str
    """The operation of the commit, in Hudi's form."""


ArchivedBatches = MutableMapping[tuple[str, str], WrittenBatch | None]
"""(name of the stream, first active instant of the table) -> the newest batch of the stream in the archive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch that is to be written."""

    number: int
    """Its id."""
    name: str
    """The name of the stream."""
    query: str
    """The id of the query; '' if Spark does not say it."""
    operation: str
    """The operation, in Hudi's form."""

    def metadata(self) -> dict[str, str]:
        """What the commit says about the batch."""
        return {SPARK_SINK: json.dumps({self.name: str(self.number)}, separators=(",", ":")), QUERY: self.query}

    def is_in(self, table: HudiTable, newest: WrittenBatch | None) -> bool:
        """Whether the table, whose newest batch of the stream is `newest`, has the batch. Pure.

        ConfigurationError for a batch of another query, with a lower number, or that another operation wrote.
        """
        if newest is None or (self.number > newest.number and self._may_follow(newest)):
            return False
        where = f"table {redacted_uri(table.base_path)}: stream {self.name[:80]!r}"
        if not self._may_follow(newest):
            raise ConfigurationError(
                f"{where}: the newest batch in the table, {newest.number}, is of query {newest.query}, and batch "
                f"{self.number} is of query {self.query}, which has another checkpoint: their numbers do not belong "
                "together; start the query with the checkpoint of the other one, or give another identifier"
            )
        if self.number < newest.number:
            raise ConfigurationError(
                f"{where}: got batch {self.number}, and the table has batch {newest.number} already: nothing was "
                "written. After a crash Spark repeats the newest batch alone, so this query has a new or an older "
                "checkpoint, or another driver runs it too: start it with the newest checkpoint, or give another "
                "identifier"
            )
        if self.operation != newest.operation:
            raise ConfigurationError(
                f"{where}: the table has batch {self.number}, written by operation {newest.operation}, and this sink's "
                f"operation is {self.operation}: several sinks of one table need an identifier each"
            )
        return True

    def _may_follow(self, newest: WrittenBatch) -> bool:
        """Whether both are, or may be, of one query."""
        return not newest.query or not self.query or newest.query == self.query


@dataclass(frozen=True, slots=True)
class BatchSearch:
    """Searches the newest batch of a stream, for one write: each commit is read once."""

    name: str
    """The name of the stream."""
    archived: ArchivedBatches = field(default_factory=dict)
    """What is known of the archive, which is read again only after instants were archived."""
    _read: dict[str, WrittenBatch | None] = field(default_factory=dict)
    """Name of a completed file -> the batch that the commit has of the stream."""

    def newest(self, table: HudiTable) -> WrittenBatch | None:
        """The newest batch of the stream that a commit of the table has, in its timeline as it is now; None if there is
        none. If no active commit has one, the archive is read. Errors of reading commits and the archive."""
        return read_current(lambda: self._newest(table.pinned()))

    def _newest(self, pinned: HudiTable) -> WrittenBatch | None:
        timeline = pinned.timeline()
        for instant in reversed(timeline.completed_writes):
            if instant.file_name not in self._read:
                self._read[instant.file_name] = batch_of(pinned.commit(instant), self.name)
            if (batch := self._read[instant.file_name]) is not None:
                return batch
        place = (self.name, timeline.first_active)
        if place not in self.archived:
            self.archived[place] = next(_archived_batches(pinned, self.name), None)
        return self.archived[place]


def batch_of(commit: CommitMetadata, name: str) -> WrittenBatch | None:
    """The batch of a stream that a commit has, if it has one."""
    extra: Mapping[str, str] = commit.extra
    try:
        batches = parse_sink(extra[SPARK_SINK]) if SPARK_SINK in extra else ()
    except MalformedOffsets:  # another program's value
        return None
    numbers = [batch.batch_id for batch in batches if batch.identifier == name]
    return WrittenBatch(numbers[0], extra.get(QUERY, ""), commit.operation) if numbers else None


def _archived_batches(table: HudiTable, name: str) -> Iterator[WrittenBatch]:
    """The archived batches of a stream, the newest first."""
    if table.has_archived():
        commits = table.archive().commits
        for requested in sorted(commits, reverse=True):
            if (batch := batch_of(commits[requested], name)) is not None:
                yield batch

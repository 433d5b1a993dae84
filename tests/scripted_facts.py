"""Timelines and commit metadata from values of a test, without a table."""

from __future__ import annotations

from penstock.enumerator.planning.selection import TimelineFacts
from penstock.proto.model.positions import InstantTime, Position
from penstock.table.timeline.active import build_timeline
from penstock.table.timeline.commits import CommitMetadata, WriteStat
from penstock.table.timeline.instants import parse_instant_file

Commit = tuple[str, str, list[WriteStat], list[str]]


def stat(group: str, *, size: int = 10, rows: int = 1, partition: str = "p") -> WriteStat:
    return WriteStat(
        partition=partition, file_id=group, path=f"{partition}/{group}_0-1-1_1.parquet", num_writes=rows,
        num_deletes=0, num_inserts=rows, num_update_writes=0, file_size_bytes=size, base_file="", log_files=(),
        prev_commit="",
    )  # fmt: skip


def facts(*commits: Commit, layout: int = 2, complete_from: str = "") -> TimelineFacts:
    """Commits as (file name, operation, stats, replaced groups of partition p)."""
    files = [parse_instant_file(name, layout) for name, *_ in commits]
    metadata: dict[str, CommitMetadata] = {}
    for item, (_, operation, stats, replaced) in zip(files, commits, strict=True):
        if item is not None and item.is_completed:
            metadata[item.requested_time] = CommitMetadata(
                requested_time=item.requested_time, operation=operation, compacted=operation == "COMPACT",
                schema_json="", extra={}, stats=tuple(sorted(stats, key=lambda s: (s.partition, s.file_id))),
                replaced=tuple(("p", group) for group in replaced),
            )  # fmt: skip
    return TimelineFacts(
        table="t", timeline=build_timeline(layout, [item for item in files if item]), commits=metadata,
        pending_clusterings=frozenset(), complete_from=complete_from,
    )  # fmt: skip


def at(order_key: str, index: int | None = None) -> Position:
    return Position(InstantTime(order_key)) if index is None else Position(InstantTime(order_key), index)

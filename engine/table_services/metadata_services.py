"""Cleans and archives the metadata table of a table together with the table.

Source: Hudi `HoodieBackedTableMetadataWriter.performTableServices`, `HoodieMetadataWriteUtils`: Hudi's writers do it
with each write. A metadata table with other partitions than `files` is left to them: Penstock's next write removes
these.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator
from typing import Final

from penstock.engine.table_services.cleaning.clean_executor import carry_out, schedule_clean
from penstock.engine.table_services.cleaning.clean_inputs import pending_cleans
from penstock.engine.table_services.serviced_table import ServicedTable
from penstock.proto.errors import PenstockError
from penstock.table.config.properties import load_properties
from penstock.table.hudi_table import HudiTable
from penstock.table.metadata.files import FILES
from penstock.table.metadata.folder import WritableFolder
from penstock.table.metadata.metadata_table import METADATA_FOLDER
from penstock.table.metadata.validity import has_older_instants
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import Action
from penstock.writer.metadata_table.compaction import AFTER
from penstock.writer.metadata_table.partitions import ListedPartitions
from penstock.writer.table_services.archival import ArchivePolicy
from penstock.writer.table_services.retention import CleanPolicy, KeepCommits, KeepFileVersions, KeepHours
from penstock.writer.transaction.transaction import locked

log = logging.getLogger("penstock.writer")

_LEAST_COMMITS: Final = 20
"""Hudi's `DEFAULT_METADATA_CLEANER_COMMITS_RETAINED`."""
_MORE: Final = 1.2
"""How much more than of the table is retained of the metadata table."""
_READERS_NEED: Final = 3
"""Instants after a compaction before which nothing is cleaned: readers may still read the logs."""


@contextlib.contextmanager
def logged_errors(serviced: ServicedTable) -> Iterator[None]:
    """Logs an error of the block, which ends it: the service of the table itself is done by then."""
    try:
        yield
    except PenstockError as error:
        log.warning("%s: its metadata table was not cleaned or archived: %s", serviced.where, error)


def open_metadata_serviced(serviced: ServicedTable) -> ServicedTable | None:
    """The metadata table, as a table with services; None without one, and if its services are left to Hudi. Errors of
    opening a table for one that is damaged."""
    properties = serviced.table.unpinned().refreshed().properties
    listed = ListedPartitions.of(properties)
    if properties.layout != 2 or listed.complete != (FILES,) or listed.inflight:
        return None
    folder = WritableFolder(serviced.storage, METADATA_FOLDER)
    table = HudiTable(folder, load_properties(folder))
    return ServicedTable(table=table, storage=folder, environment=serviced.environment, partitions=(FILES,))


def clean_metadata(serviced: ServicedTable, policy: CleanPolicy) -> None:
    """Deletes old base files and logs of the metadata table, by the policy of a clean of the table. Errors are
    logged. Takes the table's lock only if there is such a metadata table."""
    with logged_errors(serviced):
        if open_metadata_serviced(serviced) is None:
            return
        with locked(serviced.storage, serviced.environment):
            metadata = open_metadata_serviced(serviced)  # another process may have removed it
            if metadata is not None:
                _clean(metadata, policy)


def _clean(metadata: ServicedTable, policy: CleanPolicy) -> None:
    for pending in pending_cleans(metadata.table.timeline()):
        carry_out(metadata, pending, None)
    if _is_read(metadata.table.timeline()):
        return
    planned = schedule_clean(metadata, metadata_retention(policy), None)
    if planned is not None:
        carry_out(metadata, planned, None)


def metadata_retention(policy: CleanPolicy) -> CleanPolicy:
    """What is retained of a metadata table, if a clean retains this of the table. Pure."""
    match policy:
        case KeepCommits(count):
            return KeepCommits(max(_LEAST_COMMITS, int(count * _MORE)))
        case KeepHours(hours):
            return KeepHours(math.ceil(hours * _MORE))
        case KeepFileVersions(count):
            return KeepFileVersions(math.ceil(count * _MORE))


def metadata_policy(policy: ArchivePolicy) -> ArchivePolicy:
    """How many instants of a metadata table stay, if so many of the table do. Pure."""
    return ArchivePolicy(keep_min=policy.keep_min + 1, keep_max=policy.keep_max + 1, delta_commits=AFTER)


def metadata_kept_from(data: Timeline, metadata: Timeline) -> str:
    """The requested time from which on the instants of the metadata table stay: that of the table's first write, or of
    its first pending instant. All stay while the table has instants that completed before the metadata table was
    created, as after a restore: only the first instant of the metadata table tells that it does not lack them. Pure.

    Source: Hudi `TimelineUtils.getEarliestInstantForMetadataArchival`.
    """
    if has_older_instants(data, metadata):
        return "0"
    first = [item.requested_time for item in data.completed_writes[:1]]
    return min([*first, *(item.requested_time for item in data.instants if not item.is_completed)], default="0")


def _is_read(timeline: Timeline) -> bool:
    """Whether readers may still read what the last compaction merged."""
    last = max((item.requested_time for item in timeline.completed_writes if item.action is Action.COMMIT), default="")
    later = [item for item in timeline.instants if item.is_completed and item.requested_time > last]
    return bool(last) and len(later) < _READERS_NEED

"""`due_services`: the services of a table that its timeline says are due."""

from __future__ import annotations

from penstock.engine.table_services.cleaning.clean_inputs import pending_cleans
from penstock.engine.table_services.clustering import completed_clusterings
from penstock.engine.table_services.serviced_table import pending, pending_clusterings
from penstock.engine.table_services.work.carry_out import maintenance_options
from penstock.enumerator.service_splits.due_services import DueService, ServicePolicy
from penstock.proto.model.service_splits import Service
from penstock.table.config.properties import load_properties
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.local_writes import open_writable
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import Action
from penstock.writer.table_services.compaction import deltas_since_compaction
from penstock.writer.table_services.maintenance import MaintenancePolicy, maintenance_policy, writes_since_clustering


def due_services(path: str, policy: ServicePolicy) -> tuple[DueService, ...]:
    """The services of the table at `path` that are due by a policy. It lists the timeline, and reads no data files.

    Pending compactions and clusterings are due one by one, those of other writers too. While a clustering is pending,
    no other one is planned; a compaction is, after as many delta commits as without a pending one. Errors of the table
    and of its storage, and those of `maintenance_policy`.
    """
    storage = open_writable(path)
    table = HudiTable(storage, load_properties(storage))
    where = f"table {redacted_uri(storage.base_path)}"
    options = maintenance_options(policy.options, policy.cluster_after)
    skipped = [each for each in Service if each not in policy.services]
    limits = maintenance_policy(options, table.properties.raw, where, skipped)
    timeline = table.timeline()
    seen = max((item.completion_time or item.requested_time for item in timeline.completed_writes), default="")
    found: list[tuple[Service, str]] = []
    if Service.COMPACT in policy.services and table.properties.is_merge_on_read:
        plans = [str(item.requested_time) for item in pending(timeline, Action.COMPACTION)]
        found += [(Service.COMPACT, instant) for instant in plans]
        # Of the groups that no pending plan has: one that cannot be carried out stops no other group.
        if deltas_since_compaction(timeline, planned=plans) >= limits.compact_after:
            found.append((Service.COMPACT, ""))
    if Service.CLUSTER in policy.services:
        plans = [str(item.requested_time) for item in pending_clusterings(table, timeline)]
        if not plans and _clustering_is_due(table, timeline, limits):
            plans = [""]
        found += [(Service.CLUSTER, instant) for instant in plans]
    if Service.CLEAN in policy.services and _clean_is_due(timeline, policy.clean_after):
        found.append((Service.CLEAN, ""))
    if limits.archive is not None and len(timeline.completed_writes) > limits.archive.keep_max:
        found.append((Service.ARCHIVE, ""))
    return tuple(DueService(service, instant, seen) for service, instant in found)


def _clustering_is_due(table: HudiTable, timeline: Timeline, limits: MaintenancePolicy) -> bool:
    after = limits.cluster_after
    return after is not None and writes_since_clustering(timeline, completed_clusterings(table)) >= after


def _clean_is_due(timeline: Timeline, after: int) -> bool:
    last = max((item.requested_time for item in timeline.completed_cleans), default="")
    writes = sum((item.completion_time or item.requested_time) > last for item in timeline.completed_writes)
    return writes >= after or bool(pending_cleans(timeline))

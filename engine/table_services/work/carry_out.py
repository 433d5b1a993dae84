"""`carry_out`: what one split of a table service does."""

from __future__ import annotations

from penstock.engine.table_services.clustering import run_clustering, schedule_clustering
from penstock.engine.table_services.compaction import run_compaction, schedule_compactions
from penstock.engine.table_services.holding.readers import HoldOptions, checked_hold_options
from penstock.engine.table_services.maintain import done_services, maintenance, raise_failures
from penstock.engine.table_services.results import ServiceResult
from penstock.proto.model.access import ServerAccess
from penstock.proto.model.service_splits import Service, ServiceOptions, ServiceSplit
from penstock.table.config.properties import load_properties
from penstock.table.storage.local_writes import open_writable
from penstock.writer.table_services.maintenance import MaintenanceOptions, maintenance_policy


def carry_out(split: ServiceSplit, path: str, server: str, access: ServerAccess) -> str:
    """Carries the split out on the table at `path`; returns what was done. Errors as `penstock.compact`,
    `penstock.cluster`, `penstock.clean` and `penstock.archive`; the server is asked where readers are."""
    options, instant = split.options, split.id.instant
    match split.id.service:
        case Service.COMPACT if instant:
            return _text(run_compaction(path, instant, options.timeline_timezone))
        case Service.COMPACT:
            planned = schedule_compactions(path, options.plan_bytes, options.timeline_timezone)
            return "; ".join(map(_text, planned)) or "no file group has logs"
        case Service.CLUSTER if instant:
            return _text(run_clustering(path, instant, options.index or None, options.timeline_timezone))
        case Service.CLUSTER:
            clustering = schedule_clustering(
                path, _sort_by(path, options), options.index or None, split.avoided, options.timeline_timezone
            )
            return "no file groups to join or to sort" if clustering is None else _text(clustering)
        case Service.CLEAN | Service.ARCHIVE:
            return _maintained(split, path, server, access)


def maintenance_options(options: ServiceOptions, cluster_after: int | None = None) -> MaintenanceOptions:
    """The options of a maintenance."""
    return MaintenanceOptions(
        compact_after=options.compact_after,
        cluster_after=cluster_after,
        sort_by=options.sort_by,
        commits=options.commits,
        hours=options.hours,
        file_versions=options.file_versions,
        keep_min=options.keep_min,
        keep_max=options.keep_max,
    )


def _sort_by(path: str, options: ServiceOptions) -> tuple[str, ...]:
    properties = load_properties(open_writable(path)).raw
    skipped = [each for each in Service if each is not Service.CLUSTER]
    return maintenance_policy(maintenance_options(options), properties, f"table {path}", skipped).sort_by


def _maintained(split: ServiceSplit, path: str, server: str, access: ServerAccess) -> str:
    service = split.id.service
    run = maintenance(
        path,
        maintenance_options(split.options),
        index=None,
        skip=[each for each in Service if each is not service],
        hold=_hold(split, server, access),
        dry_run=False,
        timeline_timezone=split.options.timeline_timezone,
        sole_writer=False,
    )
    raise_failures(path, run.result(), run.failures)
    return ", ".join(done_services(run.result())) or run.result().reasons[service.value]


def _hold(split: ServiceSplit, server: str, access: ServerAccess) -> HoldOptions:
    if not split.readers:
        return HoldOptions()
    at_most, most = split.options.hold_at_most or None, len(split.readers)
    return checked_hold_options(split.readers, (), at_most, server, split.id.table, access, most)


def _text(result: ServiceResult) -> str:
    return f"{result.instant}: {result.groups} file groups, {result.rows or 0} rows"

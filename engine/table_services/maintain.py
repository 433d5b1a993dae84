"""`penstock.maintain`: runs the services of a table that are due."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.engine.table_services.archive import ArchiveResult, archive_serviced
from penstock.engine.table_services.clean import CleanResult, clean_serviced
from penstock.engine.table_services.clustering import cluster, completed_clusterings
from penstock.engine.table_services.compaction import compact
from penstock.engine.table_services.holding.readers import Held, HoldOptions, held_by, hold_options
from penstock.engine.table_services.results import ServiceResult
from penstock.engine.table_services.serviced_table import ServicedTable, open_serviced, pending, pending_clusterings
from penstock.proto.errors import PenstockError
from penstock.proto.model.service_splits import Service
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.instants import Action
from penstock.writer.table_services.cleaner_holds import CleanerHold, HoldState
from penstock.writer.table_services.compaction import deltas_since_compaction
from penstock.writer.table_services.maintenance import (
    MaintenanceOptions,
    MaintenancePolicy,
    maintenance_policy,
    parse_services,
    writes_since_clustering,
)

log = logging.getLogger("penstock.writer")


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainResult:
    """The maintenance of a table."""

    compactions: tuple[ServiceResult, ...] | None
    """The compactions that were carried out, pending ones first; None if there was none."""
    clusterings: tuple[ServiceResult, ...] | None
    """The clusterings that were carried out, pending ones first; None if there was none."""
    clean: CleanResult | None
    """The clean; None if it deleted nothing."""
    archive: ArchiveResult | None
    """The archival; None if it archived nothing."""
    reasons: Mapping[str, str]
    """`compact`, `cluster`, `clean`, `archive` -> why the service was not carried out. Only of those that were not."""
    holds: tuple[CleanerHold, ...]
    """The readers of `hold_for` and `hold_checkpoints`: which of them held the cleaner, and for how long."""
    dry_run: bool
    """Whether nothing was changed: the results say what would be done."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A service that failed."""

    service: Service
    """The service."""
    error: PenstockError
    """Its error."""
    done: tuple[str, ...] = ()
    """Instants of the service that completed while it ran, before it failed."""


def maintain(
    path: str,
    *,
    compact_after: int | None = None,
    cluster_after: int | None = None,
    sort_by: Sequence[str] | None = None,
    index: str | None = None,
    commits: int | None = None,
    hours: int | None = None,
    file_versions: int | None = None,
    keep_min: int | None = None,
    keep_max: int | None = None,
    skip: Collection[str] = (),
    hold_for: Sequence[str] = (),
    hold_checkpoints: Sequence[str] = (),
    hold_at_most: str | None = None,
    server: str | None = None,
    server_table: str | None = None,
    server_options: Mapping[str, str] | None = None,
    dry_run: bool = False,
    timeline_timezone: str = "",
    sole_writer: bool = False,
) -> MaintainResult:
    """Runs the services of the table at `path` that are due: compaction, clustering, clean, archival, in this order.

    An option that is not given has the value of the table's `hoodie.properties`, else Hudi's default:
    * compact_after: a merge-on-read table is compacted after so many delta commits (5,
      `hoodie.compact.inline.max.delta.commits`). A pending compaction, such as that of a killed process, is carried out
      first, also if no other one is due.
    * cluster_after: the table is clustered after so many writes (`hoodie.clustering.inline.max.commits`, if
      `hoodie.clustering.inline` is true; else never). `sort_by`
      (`hoodie.clustering.plan.strategy.sort.columns`) and `index`: as of `penstock.cluster`.
    * commits, hours, file_versions: what a clean keeps, as of `penstock.clean` (10 commits,
      `hoodie.clean.policy`, `hoodie.clean.commits.retained` and so on).
    * keep_min, keep_max: as of `penstock.archive` (20 and 30, `hoodie.keep.min.commits`, `hoodie.keep.max.commits`; 10
      and 20 more than a clean keeps, if it keeps 20 commits or more). Writes of the last `hours` are not archived.
    * skip: the services that are left out, of `compact`, `cluster`, `clean`, `archive`. Without the archival, its
      options and properties are not checked.
    * hold_for, hold_checkpoints, hold_at_most, server, server_table, server_options: readers for which files are kept,
      as of `penstock.clean`. The archival leaves what they have not read.
    * dry_run: nothing changes; the result says what would be done to the table as it is.
    * timeline_timezone, sole_writer: as of `penstock.write`.

    If a service fails, the others run nevertheless, as none depends on another one. Then the error of the first failed
    service is raised. Its text names each failed service with the code of its error, and what was done, also by a
    service before it failed. An exception that is no error of Penstock ends the maintenance, with the same as a note.
    """
    options = MaintenanceOptions(
        compact_after=compact_after,
        cluster_after=cluster_after,
        sort_by=sort_by,
        commits=commits,
        hours=hours,
        file_versions=file_versions,
        keep_min=keep_min,
        keep_max=keep_max,
    )
    run = maintenance(
        path,
        options,
        index=index,
        skip=skip,
        hold=hold_options(hold_for, hold_checkpoints, hold_at_most, server, server_table, server_options),
        dry_run=dry_run,
        timeline_timezone=timeline_timezone,
        sole_writer=sole_writer,
    )
    raise_failures(path, run.result(), run.failures)
    return run.result()


@dataclass(slots=True, kw_only=True)
class Maintenance:
    """The maintenance of a table: its services, one after the other."""

    serviced: ServicedTable
    policy: MaintenancePolicy
    path: str
    index: str | None
    skip: Collection[Service]
    hold: HoldOptions
    dry_run: bool
    timeline_timezone: str
    sole_writer: bool
    failures: list[Failure] = field(default_factory=list)
    """The services that failed, in their order."""
    _reasons: dict[str, str] = field(default_factory=dict)
    _compactions: tuple[ServiceResult, ...] = ()
    _clusterings: tuple[ServiceResult, ...] = ()
    _clean: CleanResult | None = None
    _archive: ArchiveResult | None = None
    _held: Held | None = None

    def run(self) -> None:
        """Runs the services that are due."""
        steps: dict[Service, Callable[[], str]] = {
            Service.COMPACT: self._compact,
            Service.CLUSTER: self._cluster,
            Service.CLEAN: self._run_clean,
            Service.ARCHIVE: self._run_archive,
        }
        for service, step in steps.items():
            if service in self.skip:
                self._reasons[service.value] = "skipped"
                continue
            before = self._completed(service)
            try:
                reason = step()
            except PenstockError as error:
                log.warning("%s: %s failed: %s", self.serviced.where, service, error)
                after = self._completed(service)
                done = () if before is None or after is None else sorted(after - before)
                self.failures.append(Failure(service, error, tuple(done)))
                reason = f"failed: {error}"
            except Exception as error:
                error.add_note(failures_text(self.path, self.result(), self.failures))
                raise
            if reason:
                self._reasons[service.value] = reason

    def _completed(self, service: Service) -> set[str] | None:
        """The completed instants of a service; None if the timeline cannot be read."""
        table = self.serviced.table
        try:
            match service:
                case Service.COMPACT:
                    items = [item for item in table.timeline().completed_writes if item.action is Action.COMMIT]
                    is_merge_on_read = table.properties.is_merge_on_read
                    return {str(item.requested_time) for item in items if is_merge_on_read}
                case Service.CLUSTER:
                    return {*completed_clusterings(table)}
                case Service.CLEAN:
                    return {str(item.requested_time) for item in table.timeline().completed_cleans}
                case Service.ARCHIVE:
                    return set()
        except PenstockError:
            return None

    def result(self) -> MaintainResult:
        """What was done."""
        return MaintainResult(
            compactions=self._compactions or None,
            clusterings=self._clusterings or None,
            clean=self._clean,
            archive=self._archive,
            reasons=dict(self._reasons),
            holds=() if self._held is None else self._held.holds,
            dry_run=self.dry_run,
        )

    def _compact(self) -> str:
        """Compacts; why not, or ''."""
        table = self.serviced.table
        if not table.properties.is_merge_on_read:
            return "the table is copy-on-write"
        timeline = table.timeline()
        deltas = deltas_since_compaction(timeline)
        is_due = deltas >= self.policy.compact_after
        if not is_due and not pending(timeline, Action.COMPACTION):
            return f"{deltas} of {self.policy.compact_after} delta commits since the last compaction"
        self._compactions = compact(
            self.path,
            dry_run=self.dry_run,
            run_only=not is_due,
            timeline_timezone=self.timeline_timezone,
            sole_writer=self.sole_writer,
        )
        return "" if self._compactions else "no file group has logs"

    def _cluster(self) -> str:
        """Clusters; why not, or ''."""
        table, after = self.serviced.table, self.policy.cluster_after
        timeline = table.timeline()
        plans = pending_clusterings(table, timeline)
        if after is None:
            left = f"; {plans[0].requested_time} is pending" if plans else ""
            return f"cluster_after is not given{left}"
        writes = writes_since_clustering(timeline, completed_clusterings(table))
        if writes < after and not plans:
            return f"{writes} of {after} writes since the last clustering"
        self._clusterings = cluster(
            self.path,
            sort_by=self.policy.sort_by,
            index=self.index,
            dry_run=self.dry_run,
            run_only=writes < after,
            timeline_timezone=self.timeline_timezone,
            sole_writer=self.sole_writer,
        )
        return "" if self._clusterings else "no file groups to join or to sort"

    def _run_clean(self) -> str:
        """Cleans; why not, or ''."""
        held = self._readers()
        result = clean_serviced(self.serviced, self.policy.clean, held.position, held, dry_run=self.dry_run)
        if not (result.instant or result.carried_on or result.files or result.partitions):
            holding = ", ".join(hold.name for hold in held.holds if hold.state is HoldState.HOLDS)
            if not holding:
                return "no file that only older states need"
            return f"no file can be deleted: files that only older states need are held for {holding}"
        self._clean = result
        return ""

    def _readers(self) -> Held:
        """The readers that hold the cleaner, as they are when the first service needs them."""
        if self._held is None:
            self._held = held_by(self.serviced, self.hold)
        return self._held

    def _run_archive(self) -> str:
        """Archives; why not, or ''."""
        policy = self.policy.archive
        if policy is None:
            return "skipped"
        completed = len(self.serviced.table.timeline().completed_writes)
        if completed <= policy.keep_max:
            return f"{completed} completed writes are on the timeline, and keep_max is {policy.keep_max}"
        serviced = open_serviced(self.path, self.timeline_timezone)
        result = archive_serviced(serviced, policy, self._readers().position, self.policy.clean, dry_run=self.dry_run)
        if not result.instants:
            return f"{result.kept} completed writes are on the timeline, and all of them are needed"
        self._archive = result
        return ""


def maintenance(
    path: str,
    options: MaintenanceOptions,
    *,
    index: str | None,
    skip: Collection[str],
    hold: HoldOptions,
    dry_run: bool,
    timeline_timezone: str,
    sole_writer: bool,
) -> Maintenance:
    """Maintains a table as `maintain`, and returns failures. Errors before the first service are raised."""
    skipped = parse_services(skip)
    serviced = open_serviced(str(path), timeline_timezone, keeps_metadata=True)
    run = Maintenance(
        serviced=serviced,
        policy=maintenance_policy(options, serviced.table.properties.raw, serviced.where, skipped),
        path=str(path),
        index=index,
        skip=skipped,
        hold=hold,
        dry_run=dry_run,
        timeline_timezone=timeline_timezone,
        sole_writer=sole_writer,
    )
    run.run()
    return run


def raise_failures(path: str, result: MaintainResult, failures: Sequence[Failure]) -> None:
    """Raises the error of the first failed service, with what failed and what was done; nothing without a failure."""
    if not failures:
        return
    first = failures[0].error
    error = type(first)(failures_text(path, result, failures))
    error.retry_ms, error.missing_file = first.retry_ms, first.missing_file
    raise error from first


def failures_text(path: str, result: MaintainResult, failures: Sequence[Failure]) -> str:
    """What failed, with the code of each error, and what was done, or would be."""
    parts = [f"{failure.service} failed ({failure.error.code}): {failure.error}" for failure in failures]
    done = done_services(result)
    done += [f"{failure.service} {instant} before it failed" for failure in failures for instant in failure.done]
    failed = "; ".join(parts) or "no service failed before"
    label = "Would be done" if result.dry_run else "Done"
    return f"maintenance of table {redacted_uri(str(path))}: {failed}. {label}: {', '.join(done) or 'nothing'}"


def done_services(result: MaintainResult) -> list[str]:
    """The services that were carried out, with their instants; of a dry run without."""
    done = [f"compact {one.instant}" for one in result.compactions or ()]
    done += [f"cluster {one.instant}" for one in result.clusterings or ()]
    if result.clean is not None:
        done.append(f"clean {', '.join((*result.clean.carried_on, *filter(None, [result.clean.instant])))}")
    if result.archive is not None:
        done.append(f"archive to {result.archive.instants[-1]}")
    return [text.strip() for text in done]

"""What the maintenance of a table does, and when: options, else what the table stores, else Hudi's defaults. Pure.

Source: Hudi `HoodieCompactionConfig`, `HoodieClusteringConfig`, `HoodieCleanConfig`, `HoodieArchivalConfig`. Hudi
itself stores none of these options in a table; they can be added to `hoodie.properties`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.service_splits import Service
from penstock.table.timeline.active import Timeline
from penstock.writer.table_services.archival import ArchivePolicy
from penstock.writer.table_services.retention import CleanPolicy, KeepCommits, KeepFileVersions, KeepHours

_COMPACT_AFTER: Final = "hoodie.compact.inline.max.delta.commits"
_CLUSTERS: Final = "hoodie.clustering.inline"
_CLUSTER_AFTER: Final = "hoodie.clustering.inline.max.commits"
_SORT_BY: Final = "hoodie.clustering.plan.strategy.sort.columns"
_KEEP_MIN: Final = "hoodie.keep.min.commits"
_KEEP_MAX: Final = "hoodie.keep.max.commits"
_CLEAN_POLICY: Final = ("hoodie.clean.policy", "hoodie.cleaner.policy")
_CLEAN_COMMITS: Final = ("hoodie.clean.commits.retained", "hoodie.cleaner.commits.retained")
_CLEAN_HOURS: Final = ("hoodie.clean.hours.retained", "hoodie.cleaner.hours.retained")
_CLEAN_VERSIONS: Final = ("hoodie.clean.fileversions.retained", "hoodie.cleaner.fileversions.retained")
_MOST: Final = 1_000_000
_MAX_TEXT: Final = 4096
"""Longest stored text that is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceOptions:
    """The options of a call; None for one that is not given."""

    compact_after: int | None = None
    """Delta commits since the last compaction after which one is due."""
    cluster_after: int | None = None
    """Completed writes since the last clustering after which one is due."""
    sort_by: Sequence[str] | None = None
    """Columns by which a clustering sorts."""
    commits: int | None = None
    """A clean keeps the states at so many newest commits."""
    hours: int | None = None
    """A clean keeps the states of so many hours."""
    file_versions: int | None = None
    """A clean keeps so many slices of each file group."""
    keep_min: int | None = None
    """Completed writes that an archival leaves on the active timeline."""
    keep_max: int | None = None
    """Completed writes above which an archival is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePolicy:
    """When which service is due, and how much stays."""

    compact_after: int
    """Delta commits since the last compaction after which one is due."""
    cluster_after: int | None
    """Completed writes since the last clustering after which one is due; None: the table is not clustered."""
    sort_by: tuple[str, ...]
    """Columns by which a clustering sorts."""
    clean: CleanPolicy
    """How much a clean keeps."""
    archive: ArchivePolicy | None
    """How many completed writes stay on the active timeline; None: nothing is archived."""


def maintenance_policy(
    options: MaintenanceOptions, stored: Mapping[str, str], where: str, skip: Collection[Service] = ()
) -> MaintenancePolicy:
    """The policy of these options; where one is not given, that of the table's properties, else Hudi's default.

    Options and properties of an archival that is left out by `skip` are ignored. The archival keeps more commits than
    the clean, as Hudi requires: by default 10 more, if the clean keeps as many as the archival. ConfigurationError,
    beginning with `where`, for values that exclude each other or are out of range.
    """
    reader = _Stored(stored, where)
    compact_after = _first(options.compact_after, reader.number(_COMPACT_AFTER), 5)
    cluster_after = options.cluster_after
    if cluster_after is None and reader.text(_CLUSTERS).lower() == "true":
        cluster_after = _first(reader.number(_CLUSTER_AFTER), 4)
    for name, value in (("compact_after", compact_after), ("cluster_after", cluster_after)):
        if value is not None and not 1 <= value <= _MOST:
            raise ConfigurationError(f"{where}: got {name}={value}, expected 1 to {_MOST}")
    stored_columns = tuple(name.strip() for name in reader.text(_SORT_BY).split(",") if name.strip())
    clean = _clean_policy(options, reader, where)
    return MaintenancePolicy(
        compact_after=compact_after,
        cluster_after=cluster_after,
        sort_by=stored_columns if options.sort_by is None else tuple(options.sort_by),
        clean=clean,
        archive=None if Service.ARCHIVE in skip else _archive_policy(options, reader, clean, compact_after, where),
    )


def stored_clean_policy(stored: Mapping[str, str], where: str) -> CleanPolicy:
    """The clean policy of the table's properties, else Hudi's default. ConfigurationError for a wrong property."""
    return _clean_policy(MaintenanceOptions(), _Stored(stored, where), where)


def parse_services(names: Collection[str]) -> frozenset[Service]:
    """The services of these names. ConfigurationError for another name."""
    known = {str(service): service for service in Service}
    for name in names:
        if name not in known:
            raise ConfigurationError(f"skip: got {str(name)[:40]!r}, expected {', '.join(known)}")
    return frozenset(known[name] for name in names)


def writes_since_clustering(timeline: Timeline, clusterings: Collection[str]) -> int:
    """How many writes completed since the last clustering was planned (Hudi `ClusteringPlanActionExecutor`).

    clusterings: requested times of completed clusterings.
    """
    last = max(clusterings, default="")
    return sum(
        item.requested_time not in clusterings and (item.completion_time or item.requested_time) > last
        for item in timeline.completed_writes
    )


def _clean_policy(options: MaintenanceOptions, stored: _Stored, where: str) -> CleanPolicy:
    given = (options.commits, options.hours, options.file_versions)
    if sum(value is not None for value in given) > 1:
        raise ConfigurationError(
            f"{where}: got commits={given[0]}, hours={given[1]}, file_versions={given[2]}, expected one of them"
        )
    name = stored.text(*_CLEAN_POLICY).upper() if given == (None, None, None) else ""
    if options.hours is not None or name == "KEEP_LATEST_BY_HOURS":
        return KeepHours(_first(options.hours, stored.number(*_CLEAN_HOURS), 24))
    if options.file_versions is not None or name == "KEEP_LATEST_FILE_VERSIONS":
        return KeepFileVersions(_first(options.file_versions, stored.number(*_CLEAN_VERSIONS), 3))
    if name not in ("", "KEEP_LATEST_COMMITS"):
        raise ConfigurationError(
            f"{where}: its property {_CLEAN_POLICY[0]} is {name[:60]!r}, which is no policy of Hudi's cleaner: give "
            "commits, hours or file_versions"
        )
    return KeepCommits(_first(options.commits, stored.number(*_CLEAN_COMMITS), 10))


def _archive_policy(
    options: MaintenanceOptions, stored: _Stored, clean: CleanPolicy, compact_after: int, where: str
) -> ArchivePolicy:
    keep_min = _first_or_none(options.keep_min, stored.number(_KEEP_MIN))
    keep_max = _first_or_none(options.keep_max, stored.number(_KEEP_MAX))
    retained = clean.count if isinstance(clean, KeepCommits) else 0
    if keep_min is None:
        least = 20 if retained < 20 else retained + 10
        keep_min = least if keep_max is None else min(least, keep_max - 1)
    if keep_max is None:
        keep_max = max(30, keep_min + 10)
    if keep_min <= retained:
        raise ConfigurationError(
            f"{where}: got keep_min={keep_min}, keep_max={keep_max}, and a clean keeps {retained} commits: an archival "
            "must keep more, or Hudi's readers could not read ranges that the clean keeps"
        )
    return ArchivePolicy(keep_min=keep_min, keep_max=keep_max, delta_commits=compact_after)


@dataclass(frozen=True, slots=True)
class _Stored:
    """The properties of a table."""

    properties: Mapping[str, str]
    where: str

    def text(self, *names: str) -> str:
        """The value of the first of these names that the table stores; '' if it stores none."""
        value = next((self.properties[name] for name in names if name in self.properties), "").strip()
        if len(value) > _MAX_TEXT:
            raise ConfigurationError(f"{self.where}: its property {names[0]} has {len(value)} characters")
        return value

    def number(self, *names: str) -> int | None:
        """The number of the first of these names that the table stores; None if it stores none."""
        value = self.text(*names)
        if not value:
            return None
        if not (value.isascii() and value.isdigit() and 1 <= len(value) <= 7 and 1 <= int(value) <= _MOST):
            raise ConfigurationError(
                f"{self.where}: its property {names[0]} is {value[:40]!r}, expected a number from 1 to {_MOST}"
            )
        return int(value)


def _first(*values: int | None) -> int:
    return next(value for value in values if value is not None)


def _first_or_none(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)

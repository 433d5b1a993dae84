"""The settings of table services. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from penstock.enumerator.server.config.fields import BY_FIELDS, Ranges, camel, within
from penstock.enumerator.service_splits.due_services import ServicePolicy
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.service_splits import Service, ServiceOptions
from penstock.proto.options.hold_bound import HoldBound

ServiceName = Literal["compact", "cluster", "clean", "archive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """The services of a table, which members of a worker group carry out (`penstock work`), under
    `[tables.NAME.services]`; under `[services]` those of every served table without its own. What is not set is said by
    the table's `hoodie.properties`, else it is Hudi's default."""

    __pydantic_config__: ClassVar[dict[str, object]] = BY_FIELDS
    ranges: ClassVar[Ranges] = {
        "compact_after": (1, 1_000_000),
        "cluster_after": (1, 1_000_000),
        "clean_after": (1, 1_000_000),
        "commits": (1, 1_000_000),
        "hours": (1, 1_000_000),
        "file_versions": (1, 1_000_000),
        "keep_min": (1, 1_000_000),
        "keep_max": (1, 1_000_000),
        "plan_bytes": (1, 1 << 50),
        "max_running": (1, 10_000),
        "pause_ms": (0, 86_400_000),
    }

    run: tuple[ServiceName, ...]
    """The services."""
    hold_at_most: str = ""
    """How long a reader of the table may hold cleans and archivals, such as `48h` or `200 commits`: the consumer groups
    and streams of this server. Required for `clean` and `archive`: a reader that stays behind for longer loses its
    range, and without a bound the table would keep all files."""
    compact_after: int | None = None
    """A compaction is due after so many delta commits."""
    cluster_after: int | None = None
    """A clustering is due after so many writes."""
    sort_by: tuple[str, ...] | None = None
    """The sort columns of a clustering."""
    index: str = ""
    """The index of the table's writers, for a clustering of a table that does not record it."""
    clean_after: int = 1
    """A clean is due after so many writes."""
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
    plan_bytes: int = 10 << 30
    """The size of the files of one compaction plan, about. Members carry several plans out side by side."""
    max_running: int = 2
    """How many splits of the table members have at a time."""
    pause_ms: int = 0
    """How long after a split of the table was handed out the next one is."""
    timeline_timezone: str = ""
    """The zone of the table's writers, for a table with a LOCAL timeline."""

    def __post_init__(self) -> None:
        for name, (least, most) in self.ranges.items():
            value = getattr(self, name)
            if value is not None:
                within(f"services: {camel(name)}", value, least, most)
        if not self.run:
            raise ConfigurationError("services: run: got an empty list, expected compact, cluster, clean or archive")
        deleting = [name for name in ("clean", "archive") if name in self.run]
        if deleting and not self.hold_at_most:
            raise ConfigurationError(
                f"services: holdAtMost is not set, and {deleting[0]} is run: say how long a reader of the table may "
                "hold it, such as 48h or 200 commits; it has no default, because a reader that stays behind for longer "
                "loses its range"
            )
        if self.hold_at_most:
            HoldBound.parse(self.hold_at_most)
        if sum(value is not None for value in (self.commits, self.hours, self.file_versions)) > 1:
            raise ConfigurationError("services: got several of commits, hours and fileVersions, expected one of them")

    @property
    def policy(self) -> ServicePolicy:
        """The policy that these settings state."""
        return ServicePolicy(
            services=tuple(Service(name) for name in self.run),
            cluster_after=self.cluster_after,
            clean_after=self.clean_after,
            max_running=self.max_running,
            pause_ms=self.pause_ms,
            options=ServiceOptions(
                plan_bytes=self.plan_bytes,
                sort_by=self.sort_by,
                compact_after=self.compact_after,
                index=self.index,
                commits=self.commits,
                hours=self.hours,
                file_versions=self.file_versions,
                keep_min=self.keep_min,
                keep_max=self.keep_max,
                hold_at_most=self.hold_at_most,
                timeline_timezone=self.timeline_timezone,
            ),
        )

"""Measures consumer groups for the observer, and warns before a cleaner removes data that a group has not read.

Counters are not measured: `coordinator.observations` sends them as they change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.enumerator.continuous.change_probe import TableFingerprint, is_unchanged
from penstock.enumerator.continuous.types import ReaderPlace
from penstock.enumerator.coordinator.observations import gauges_of, over_of, topic_measured
from penstock.enumerator.core.group_lifecycle import needs_discovery
from penstock.enumerator.core.over_tables import watermark_of
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.state import Group, State
from penstock.enumerator.groups.aligned_groups import AlignedGroups
from penstock.enumerator.groups.descriptions import place_of
from penstock.enumerator.groups.merged_groups import merged_gauges, merged_lag
from penstock.enumerator.groups.split_discovery import SplitDiscovery
from penstock.enumerator.log import log_event
from penstock.enumerator.observer import GroupGauges, GroupMeasured, LagMeasured, TableMeasured, TopicMeasured
from penstock.proto.errors import code_and_text
from penstock.proto.model.groups import GroupLag

MEASURE_MS: Final = 30_000
"""Interval of measurements of a table."""
REFRESH_MS: Final = 300_000
"""How long lags are not measured again of a table that does not change, if no group has any."""
CLOSE_COMMITS: Final = 2
"""See CLOSE_SECONDS."""
CLOSE_SECONDS: Final = 3600.0
"""A group whose next range will be lost within so many commits or seconds is logged as a warning, every MEASURE_MS."""


@dataclass(frozen=True, slots=True)
class _CaughtUp:
    """The lags of a table whose groups have all read everything."""

    fingerprint: TableFingerprint
    """What the look before the measurement showed."""
    places: dict[GroupKey, ReaderPlace]
    """The groups that were measured."""
    lags: list[GroupLag]
    """Their lags, in the same order."""
    at_ms: int
    """When they were measured."""


@dataclass(slots=True)
class LagMonitor:
    """Measures the groups of a `SplitDiscovery`. Any thread; one measurement per table at a time."""

    split_discovery: SplitDiscovery
    """Reads the tables of the groups."""
    aligned: AlignedGroups | None = None
    """The aligned groups; None: the gauges do not have them."""
    served: Callable[[], Collection[str]] | None = None
    """The names of the served tables; None: all are."""
    _measured: dict[str, tuple[int, frozenset[GroupKey]]] = field(default_factory=dict)
    _caught_up: dict[str, _CaughtUp] = field(default_factory=dict)
    _since_ms: dict[GroupKey, int] = field(default_factory=dict)
    _lags: dict[GroupKey, GroupLag] = field(default_factory=dict)

    def measure(self) -> None:
        """`gauges`, and `measure_table` of the tables that are due."""
        self.gauges()
        for table in self.due():
            self.measure_table(table)

    def gauges(self) -> None:
        """Sends the gauges of all groups to the observer, for groups over tables the merged gauges and lags of their
        tables. Reads no storage."""
        observer = self.split_discovery.coordinator.observer
        all_gauges = self.split_discovery.coordinator.peek(self._gauges)
        for key in set(self._lags.copy()) - all_gauges.keys():
            self._lags.pop(key, None)
        members: dict[GroupKey, list[GroupKey]] = {}
        for key, gauges in all_gauges.items():
            observer.observe(GroupMeasured(key.table, key.group, gauges))
            if gauges.over:
                members.setdefault(GroupKey(gauges.over, key.group), []).append(key)
        for whole, watermark_us in self.split_discovery.coordinator.peek(self._over_tables):
            keys = members.get(whole, [])
            merged = merged_gauges([all_gauges[key] for key in keys], watermark_us)
            observer.observe(GroupMeasured(whole.table, whole.group, merged))
            lags = [lag for lag in map(self._lags.get, keys) if lag is not None]
            observer.observe(LagMeasured(whole.table, whole.group, merged_lag(lags)))
        for measured in self.split_discovery.coordinator.peek(_topics_of):
            observer.observe(measured)

    def due(self) -> list[str]:
        """The tables whose lags are due, sorted: every MEASURE_MS, and when the table has a new group."""
        now_ms = self.split_discovery.clock_ms()
        groups = self.split_discovery.coordinator.peek(_measured_groups)
        for table in set(self._measured) - groups.keys():
            self._measured.pop(table, None)
            self._caught_up.pop(table, None)
        never = (now_ms - MEASURE_MS, frozenset[GroupKey]())
        return [
            table
            for table, keys in sorted(groups.items())
            if now_ms - (before := self._measured.get(table, never))[0] >= MEASURE_MS or not keys <= before[1]
        ]

    def measure_table(self, table: str) -> bool:
        """Sends the lag of each group of the table, and its distance from a loss, to the observer. If a lag cannot be
        measured it is None: the previous lag would be wrong."""
        observer = self.split_discovery.coordinator.observer
        places = self.split_discovery.coordinator.read(lambda state: _places_of(state, table))
        measured_ms = self.split_discovery.clock_ms()
        if table not in self._measured:  # the first interval is shorter, so that tables are measured one by one later
            measured_ms -= round(MEASURE_MS * (1 - self.split_discovery.chance()))
        self._measured[table] = (measured_ms, frozenset(places))
        lags: list[GroupLag] = []
        fingerprint = self._look(table)
        shared_lags = self._known_lags(table, places, fingerprint) or self._measured_together(table, places)
        for key, place in places.items():
            try:
                lag = shared_lags.pop(0) if shared_lags else self._lags_of(table, [place])[0]
            except Exception as error:  # noqa: BLE001 - the other groups are measured all the same
                code, text = code_and_text(error)
                self._lags.pop(key, None)
                observer.observe(LagMeasured(table, key.group, None))
                log_event(
                    "lag cannot be measured",
                    level=logging.WARNING,
                    table=table,
                    group=key.group,
                    code=code,
                    reason=text[:500],
                )
                continue
            self._lags[key] = lag
            observer.observe(LagMeasured(table, key.group, lag))
            lags.append(lag)
            if _is_close(lag):
                log_event(
                    "range will be lost",
                    level=logging.WARNING,
                    table=table,
                    group=key.group,
                    committed=place.committed,
                    commits_left=lag.loss_commits,
                    seconds_left=lag.loss_seconds,
                )
        if fingerprint is not None and len(lags) == len(places) and not any(lag.commits for lag in lags):
            if table not in self._caught_up:
                self._caught_up[table] = _CaughtUp(fingerprint, places, lags, self.split_discovery.clock_ms())
        else:
            self._caught_up.pop(table, None)
        commits = min((lag.loss_commits for lag in lags if lag.loss_commits is not None), default=None)
        seconds = min((lag.loss_seconds for lag in lags if lag.loss_seconds is not None), default=None)
        observer.observe(TableMeasured(table=table, loss_commits=commits, loss_s=seconds))
        return False

    def _look(self, table: str) -> TableFingerprint | None:
        """What the present look at the table shows; None if it fails, which the measurement reports."""
        try:
            return self.split_discovery.look(table).fingerprint
        except Exception:  # noqa: BLE001 - as above
            return None

    def _known_lags(
        self, table: str, places: dict[GroupKey, ReaderPlace], fingerprint: TableFingerprint | None
    ) -> list[GroupLag]:
        """The lags of the last measurement, if the groups had read everything and nothing has changed since. Of these
        only the seconds until a loss could differ."""
        known = self._caught_up.get(table)
        if known is None or fingerprint is None:
            return []
        is_recent = self.split_discovery.clock_ms() - known.at_ms < REFRESH_MS
        if is_recent and known.places == places and is_unchanged(known.fingerprint, fingerprint):
            return list(known.lags)
        del self._caught_up[table]
        return []

    def _measured_together(self, table: str, places: dict[GroupKey, ReaderPlace]) -> list[GroupLag]:
        """The lags of all groups, from one read of the table. Empty if one fails: then each is measured alone."""
        try:
            return self._lags_of(table, list(places.values())) if places else []
        except Exception:  # noqa: BLE001 - the group that fails is then measured alone
            return []

    def _lags_of(self, table: str, places: Sequence[ReaderPlace]) -> list[GroupLag]:
        return self.split_discovery.follows.lags(self.split_discovery.path_of(table), places)

    def _gauges(self, state: State) -> dict[GroupKey, GroupGauges]:
        now_ms, interval_ms = self.split_discovery.clock_ms(), self.split_discovery.interval_ms
        self._since_ms = {key: self._since_ms.get(key, now_ms) for key in state.groups}
        aligned = {} if self.aligned is None else self.aligned.shown(state, state.groups.values())
        return {
            key: gauges_of(
                group,
                discovery_age_s=self._discovery_age_s(key, group, now_ms),
                issued=self.split_discovery.issued.get(key),
                poll_interval_s=interval_ms(key.table) / 1000 or None,
                trouble_code="" if (trouble := self.split_discovery.trouble_of(key)) is None else trouble.code,
                alignment=aligned.get(key),
                over=over_of(state, group),
            )
            for key, group in state.groups.items()
            if not group.scope.over_tables
        }

    def _over_tables(self, state: State) -> list[tuple[GroupKey, int | None]]:
        """The groups over tables, and the watermarks of their served tables."""
        served = None if self.served is None else frozenset(self.served())
        watermarks: list[tuple[GroupKey, int | None]] = []
        for whole in state.names.over_tables.values():
            tables = (each for each in state.names.of(whole) if served is None or each.key.table in served)
            watermarks.append((whole.key, None if whole.scope.rule is None else watermark_of(tables)))
        return watermarks

    def _discovery_age_s(self, key: GroupKey, group: Group, now_ms: int) -> float | None:
        """Time since the last discovery; since the group was first measured, if there was no discovery yet."""
        if not needs_discovery(group, self.split_discovery.coordinator.settings):
            return None
        return (now_ms - self.split_discovery.discovered_ms.get(key, self._since_ms[key])) / 1000


def _measured_groups(state: State) -> dict[str, set[GroupKey]]:
    """The groups that have a lag, by table."""
    by_table = {table: set(_places_of(state, table)) for table in state.names.of_table}
    return {table: keys for table, keys in by_table.items() if keys}


def _places_of(state: State, table: str) -> dict[GroupKey, ReaderPlace]:
    return {
        key: place_of(group)
        for key, group in state.names.of_table.get(table, {}).items()
        if not (group.ended or group.scope.over_tables)
    }


def _topics_of(state: State) -> list[TopicMeasured]:
    return [measured for group in state.groups.values() if (measured := topic_measured(group)) is not None]


def _is_close(lag: GroupLag) -> bool:
    few = lag.loss_commits is not None and lag.loss_commits <= CLOSE_COMMITS
    soon = lag.loss_seconds is not None and lag.loss_seconds <= CLOSE_SECONDS
    return lag.commits > 0 and (few or soon)

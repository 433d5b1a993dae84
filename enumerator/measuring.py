"""Tells the observer where consumer groups stand, and warns before a cleaner takes what one has not read.

Shell: tables' lag, a clock. Not here: what is counted as it happens (`group_metrics`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.state import State
from penstock.enumerator.events import tell
from penstock.enumerator.group_metrics import gauges_of, kafka_gauges_of
from penstock.enumerator.looking import Looker
from penstock.enumerator.observer import GroupGauges, KafkaGauges, TableGauges
from penstock.enumerator.watch.values import Progress
from penstock.proto.errors import PenstockError
from penstock.proto.groups import GroupLag
from penstock.proto.positions import Position

MEASURE_MS: Final = 30_000
CLOSE_COMMITS: Final = 2
CLOSE_SECONDS: Final = 3600.0
"""A group that is closer to losing its next range than either is warned of, every MEASURE_MS."""


@dataclass(slots=True)
class Measurer:
    """Measures the groups that a looker follows. One thread at a time."""

    looker: Looker
    _measured_ms: int = -MEASURE_MS

    def measure(self) -> None:
        """Tells the observer where the groups stand; at most every MEASURE_MS how far they are from a loss."""
        observer = self.looker.keeper.observer
        now_ms = self.looker.clock_ms()
        for key, gauges in self.looker.keeper.look(self._gauges).items():
            observer.group_gauges(key.table, key.group, gauges)
        for key, told in self.looker.keeper.look(_topics).items():
            observer.kafka(key.table, key.group, told)
        if now_ms - self._measured_ms < MEASURE_MS:
            return
        self._measured_ms = now_ms
        losses: dict[str, list[GroupLag]] = {}
        for key, (progress, committed) in self.looker.keeper.look(_places).items():
            try:
                lag = self.looker.follows.lag(self.looker.path_of(key.table), progress, committed)
            except PenstockError:
                continue
            losses.setdefault(key.table, []).append(lag)
            if _is_close(lag):
                tell("range will be lost", level=logging.WARNING, table=key.table, group=key.group, committed=committed,
                     commits_left=lag.loss_commits, seconds_left=lag.loss_seconds)  # fmt: skip
        for table, lags in losses.items():
            commits = min((lag.loss_commits for lag in lags if lag.loss_commits is not None), default=None)
            seconds = min((lag.loss_seconds for lag in lags if lag.loss_seconds is not None), default=None)
            observer.table_gauges(table, TableGauges(loss_commits=commits, loss_s=seconds))

    def _gauges(self, state: State) -> dict[GroupKey, GroupGauges]:
        now_s, now_ms = self.looker.keeper.observer.now_s(), self.looker.clock_ms()
        ago_s = {key: (now_ms - looked_ms) / 1000 for key, looked_ms in self.looker.looked_ms.items()}
        return {
            key: gauges_of(
                group, looked_at_s=now_s - ago_s[key] if key in ago_s else None, issued=self.looker.issued.get(key)
            )
            for key, group in state.groups.items()
        }


def _places(state: State) -> dict[GroupKey, tuple[Progress, Position]]:
    return {key: (group.progress, group.committed) for key, group in state.groups.items() if not group.ended}


def _topics(state: State) -> dict[GroupKey, KafkaGauges]:
    found = {key: kafka_gauges_of(group) for key, group in state.groups.items()}
    return {key: told for key, told in found.items() if told is not None}


def _is_close(lag: GroupLag) -> bool:
    few = lag.loss_commits is not None and lag.loss_commits <= CLOSE_COMMITS
    soon = lag.loss_seconds is not None and lag.loss_seconds <= CLOSE_SECONDS
    return lag.commits > 0 and (few or soon)

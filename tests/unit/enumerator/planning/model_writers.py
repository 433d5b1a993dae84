"""The writers and services of a model of a table: each step adds files and an instant."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from penstock.table.timeline.commits import WriteStat
from penstock.table.timeline.instants import Action


def text(tick: int) -> str:
    return f"{tick:06d}"


Token = tuple[int, str]
"""The row that a data instant writes into a file group: its requested time and the group."""


@dataclass
class ModelFile:
    path: str
    tokens: frozenset[Token]
    written_by: int
    superseded_at: int | None = None
    stamps: dict[Token, int] = field(default_factory=dict)  # rows with the instant of a service instead of their own


@dataclass
class Group:
    file_id: str
    base: ModelFile | None = None
    base_key: int = 0
    logs: list[ModelFile] = field(default_factory=list)
    pending_compaction: int | None = None
    closed: bool = False
    compacted: dict[Token, int] = field(default_factory=dict)  # log rows that a log compaction stamped

    def stamps(self, logs: list[ModelFile]) -> dict[Token, int]:
        """The stamps of the rows of a base file that merges these logs and the base."""
        of_logs = {token: self.compacted[token] for log in logs for token in log.tokens if token in self.compacted}
        return {**(self.base.stamps if self.base else {}), **of_logs}


@dataclass
class Done:
    """A write instant; `completed` None while pending. `tokens` only of data instants."""

    requested: int
    action: Action
    operation: str
    completed: int | None
    stats: list[WriteStat] = field(default_factory=list)
    replaced: list[tuple[str, str]] = field(default_factory=list)
    compacts: list[str] = field(default_factory=list)


class GrownTable:
    """A merge-on-read table of one partition, grown step by step; `layout` 1 or 2."""

    def __init__(self, layout: int, dice: random.Random, stamping: bool = False) -> None:
        self.layout = layout
        self.stamping = stamping  # with log compactions and bucket rescales, as in Hudi 1.2.0
        self.dice = dice
        self.tick = 100
        self.groups: list[Group] = []
        self.files: dict[str, ModelFile] = {}
        self.instants: list[Done] = []
        self.ended: dict[int, tuple[int, frozenset[Token]]] = {}  # overwriting instant -> (key, tokens it ended)

    def now(self) -> int:
        self.tick += 1
        return self.tick

    def order_key(self, done: Done) -> int:
        assert done.completed is not None
        return done.completed if self.layout == 2 else done.requested

    def grow(self, steps: int) -> None:
        steps_known = [self.insert, self.deltas, self.deltas, self.compact, self.cluster, self.overwrite]
        if self.stamping:
            steps_known += [self.log_compact, self.log_compact, self.compact, self.rescale]
        for _ in range(steps):
            self.dice.choice(steps_known)()

    def _file(self, path: str, tokens: frozenset[Token], by: int) -> ModelFile:
        new_group = ModelFile(path, tokens, by)
        self.files[path] = new_group
        return new_group

    def _stat(self, group: Group, path: str, prev: str = "", base_file: str = "") -> WriteStat:
        return WriteStat(
            partition="p", file_id=group.file_id, path=path, num_writes=1, num_deletes=0, num_inserts=1,
            num_update_writes=0, file_size_bytes=10, base_file=base_file, log_files=(), prev_commit=prev,
        )  # fmt: skip

    def _new_group(self, instant: int, tokens: frozenset[Token] = frozenset()) -> tuple[Group, WriteStat]:
        group = Group(f"fg{len(self.groups)}")
        tokens = tokens or frozenset({(instant, group.file_id)})
        path = f"p/{group.file_id}_0-1-1_{text(instant)}.parquet"
        group.base, group.base_key = self._file(path, tokens, instant), instant
        self.groups.append(group)
        return group, self._stat(group, path)

    def _open(self) -> list[Group]:
        return [group for group in self.groups if not group.closed]

    def insert(self) -> None:
        requested = self.now()
        if self.dice.random() < 0.3:  # a new group of logs alone
            group = Group(f"fg{len(self.groups)}", base_key=requested)
            self.groups.append(group)
            stats = [self._log(group, requested)]
        else:
            _, stat = self._new_group(requested)
            stats = [stat]
        self.instants.append(Done(requested, Action.DELTA_COMMIT, "UPSERT", self.now(), stats))

    def _log(self, group: Group, instant: int) -> WriteStat:
        key = instant if self.layout == 2 else (group.pending_compaction or group.base_key)
        version = (
            1
            if self.layout == 2
            else 1 + sum(f.path.startswith(f"p/.{group.file_id}_{text(key)}") for f in self.files.values())
        )
        path = f"p/.{group.file_id}_{text(key)}.log.{version}_0-1-{instant}"
        group.logs.append(self._file(path, frozenset({(instant, group.file_id)}), instant))
        base_file = group.base.path[2:] if self.layout == 1 and group.base and not group.pending_compaction else ""
        return self._stat(group, path, prev="" if self.layout == 1 else text(instant), base_file=base_file)

    def deltas(self) -> None:
        """One to three writers at once, completing in any order; one may stay pending forever and leave a log."""
        groups = self._open()
        if not groups:
            return
        started = []
        for _ in range(self.dice.randint(1, 3)):
            requested = self.now()
            touched = self.dice.sample(groups, self.dice.randint(1, len(groups)))
            if self.layout == 1:
                touched = touched[:1]
            started.append((requested, touched))
        if self.layout == 2 and self.dice.random() < 0.3:
            self.compact()  # between request and completion: the logs belong to the slice after it
        self.dice.shuffle(started)
        for number, (requested, touched) in enumerate(started):
            pending = number == 0 and self.dice.random() < 0.15 and self.layout == 2
            live = [group for group in touched if not group.closed]
            stats = [self._log(group, requested) for group in live]
            completed = None if pending else self.now()
            if pending:
                for group in live:
                    group.logs.pop()
            self.instants.append(Done(requested, Action.DELTA_COMMIT, "UPSERT", completed, stats))

    def compact(self) -> None:
        """Schedules a compaction of some groups with fixed slices. It runs now, later or never."""
        groups = [group for group in self._open() if group.logs and group.pending_compaction is None]
        if not groups:
            return
        chosen = self.dice.sample(groups, self.dice.randint(1, len(groups)))
        requested = self.now()
        done = Done(requested, Action.COMPACTION, "COMPACT", None, compacts=[group.file_id for group in chosen])
        self.instants.append(done)
        plans = [(group, list(group.logs), group.base) for group in chosen]
        for group in chosen:
            group.pending_compaction = requested
        fate = self.dice.random()
        if fate < 0.2:
            if fate < 0.1:  # interrupted: the base file exists, the commit does not
                for group, _, _ in plans:
                    self._file(f"p/{group.file_id}_9-1-1_{text(requested)}.parquet", frozenset(), requested)
            return
        for group, logs, base in plans:
            tokens = frozenset().union(base.tokens if base else (), *(log.tokens for log in logs))
            path = f"p/{group.file_id}_9-1-1_{text(requested)}.parquet"
            prev = text(base.written_by) if base else ""
            stamps = group.stamps(logs)
            group.base, group.base_key = self._file(path, tokens, requested), requested
            group.base.stamps = stamps
            group.logs = [log for log in group.logs if log not in logs]
            group.pending_compaction = None
            done.stats.append(self._stat(group, path, prev=prev))
            for old in [*logs, *([base] if base else [])]:
                old.superseded_at = requested
        done.completed = self.now()

    def log_compact(self) -> None:
        """Rewrites all logs of a slice into one, with the instant of the log compaction. The originals stay."""
        groups = [group for group in self._open() if len(group.logs) > 1 and group.pending_compaction is None]
        if not groups:
            return
        requested, stats = self.now(), []
        for group in self.dice.sample(groups, self.dice.randint(1, len(groups))):
            group.compacted |= {token: requested for log in group.logs for token in log.tokens}
            stats.append(self._log(group, requested))
            group.logs[-1].tokens = frozenset()  # its rows equal those of the originals, which a range reads instead
        self.instants.append(Done(requested, Action.DELTA_COMMIT, "LOG_COMPACT", self.now(), stats))

    def rescale(self) -> None:
        """Writes all rows into new groups, stamped with its own instant."""
        groups = self._open()
        tokens = sorted(t for g in groups for f in [*([g.base] if g.base else []), *g.logs] for t in f.tokens)
        if len(tokens) < 2 or any(group.pending_compaction is not None for group in groups):
            return
        requested, stats = self.now(), []
        for half in (tokens[::2], tokens[1::2]):
            new_group, stat = self._new_group(requested, frozenset(half))
            assert new_group.base is not None
            new_group.base.stamps = dict.fromkeys(half, requested)
            stats.append(stat)
        self._replace(groups, requested)
        replaced = [("p", group.file_id) for group in groups]
        self.instants.append(Done(requested, Action.REPLACE_COMMIT, "BUCKET_RESCALE", self.now(), stats, replaced))

    def cluster(self) -> None:
        groups = [group for group in self._open() if group.pending_compaction is None]
        if not groups:
            return
        chosen = self.dice.sample(groups, self.dice.randint(1, len(groups)))
        requested = self.now()
        tokens = frozenset().union(*(f.tokens for g in chosen for f in [*([g.base] if g.base else []), *g.logs]))
        new_group, stat = self._new_group(requested, tokens)
        assert new_group.base is not None
        for group in chosen:
            new_group.base.stamps |= group.stamps(group.logs)
        self._replace(chosen, requested)
        self.instants.append(
            Done(requested, Action.REPLACE_COMMIT, "CLUSTER", self.now(), [stat], [("p", g.file_id) for g in chosen])
        )

    def overwrite(self) -> None:
        if self.dice.random() < 0.6:
            return
        groups = [group for group in self._open() if group.pending_compaction is None]
        chosen = self.dice.sample(groups, self.dice.randint(0, len(groups)))
        requested = self.now()
        removed = frozenset().union(*(f.tokens for g in chosen for f in [*([g.base] if g.base else []), *g.logs]))
        _, stat = self._new_group(requested)
        self._replace(chosen, requested)
        done = Done(
            requested, Action.REPLACE_COMMIT, "INSERT_OVERWRITE", self.now(), [stat], [("p", g.file_id) for g in chosen]
        )
        self.instants.append(done)
        self.ended[requested] = (self.order_key(done), removed)

    def _replace(self, groups: list[Group], by: int) -> None:
        for group in groups:
            group.closed = True
            for old in [*([group.base] if group.base else []), *group.logs]:
                old.superseded_at = by

"""Random histories of a Hudi table: from a seed, a table's shape and its actions. Pure.

Decides which action may follow which, so that Hudi can run it and Penstock supports it. `history_actions` defines the
actions, `history_writer` runs them in Hudi, `history_checker` compares the rows.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tests.interop.history_actions import (
    Action,
    Crash,
    DropPartition,
    EmptyCommit,
    History,
    LogCompaction,
    PartialUpdate,
    Race,
    Restore,
    Rollback,
    Row,
    Savepoint,
    Service,
    Shape,
    Upgrade,
    Write,
)
from tests.interop.history_options import options_of

PARTITIONS = ("oslo", "riga", "new york")
ORDERINGS = ("long", "int", "string", "timestamp", "decimal")
VERSIONS = {"0.15.0": (6,), "1.0.2": (8, 8, 6), "1.2.0": (9, 9, 8, 6)}
"""Release -> the table versions that it writes, with their frequency."""
CHANGES = ("op_key_only", "data_before", "data_before_after")


def history_of(seed: int, release: str = "1.2.0", length: int = 9) -> History:
    """The history of a seed for a release; deterministic."""
    draw = random.Random(f"{release}/{seed}")
    shape = _shape(draw, release)
    more = options_of(
        seed,
        release,
        version=shape.version,
        merge_on_read=shape.merge_on_read,
        partitioned=shape.partitioned,
        index=shape.index,
        small_files=shape.small_files,
        is_plain=not (shape.many_writers or shape.changes or shape.null_partition or shape.duplicates),
    )
    shape = replace(shape, options=more)
    length += 6 if shape.archives else 0
    generator = _ActionGenerator(draw, shape, f"s{seed}k", version=shape.version)
    return History(seed, shape, tuple(generator.actions(length)))


def _shape(draw: random.Random, release: str) -> Shape:
    version, merge_on_read = draw.choice(VERSIONS[release]), draw.random() < 0.75
    index = draw.choice(("simple", "simple", "simple", "global", "bucket", "memory" if merge_on_read else "simple"))
    partitioned = draw.random() < 0.75
    has_locks = version >= 8 or (release == "0.15.0" and partitioned and index != "bucket")
    may_not_block = version >= 8 and index == "bucket" and merge_on_read
    many_writers = has_locks and index != "global" and draw.random() < (0.6 if may_not_block else 0.25)
    small_files = draw.random() < 0.5
    # Hudi 1.2.0 fails to write rows over base rows where a decimal orders them (GenericData$Fixed is no BigDecimal),
    # 1.0.2 to compact them
    merges_in_logs = version > 6 and merge_on_read and not small_files and release != "1.0.2"
    return Shape(
        release=release,
        version=version,
        merge_on_read=merge_on_read,
        event_time=draw.random() < 0.7,
        ordering=draw.choice(ORDERINGS if merges_in_logs else ORDERINGS[:-1]),
        partitioned=partitioned,
        hive_style=draw.random() < 0.5,
        index=index,
        small_files=small_files,
        record_positions=draw.random() < 0.6,
        metadata_table=draw.random() < 0.2,
        wide=draw.random() < 0.4,
        duplicates=index == "simple" and draw.random() < 0.2,
        small_blocks=draw.random() < 0.2,
        many_groups=draw.random() < 0.3,
        many_writers=many_writers,
        null_partition=draw.random() < 0.15,
        archives=not many_writers and draw.random() < 0.12,
        changes=draw.choice(CHANGES) if not many_writers and draw.random() < 0.35 else "",
        has_flags=not merge_on_read or draw.random() < 0.5,
    )


@dataclass(slots=True)
class _ActionGenerator:
    """Draws one action after the other, with the pending instants as its state."""

    draw: random.Random
    shape: Shape
    prefix: str
    version: int
    clock: int = 10
    value: int = 0
    new_keys: int = 0
    columns: int = 0
    pending: set[str] = field(default_factory=set)
    has_partial: bool = False
    has_crashed: bool = False
    may_undo: bool = False
    is_saved: bool = False
    homes: dict[str, str | None] = field(default_factory=dict)

    def actions(self, length: int) -> Iterator[Action]:
        operations = ("insert", "upsert") if self.shape.index != "simple" else ("insert", "upsert", "bulk_insert")
        yield Write(self.draw.choice(operations), self.rows(self.draw.randint(4, 12), fresh=1.0, deleted=0.1))
        for _ in range(length - 1):
            self.clock += self.draw.randint(1, 4)
            action = self.next_action()
            self.may_undo = isinstance(action, Write) and not action.inline and not self.shape.archives
            yield action

    def next_action(self) -> Action:
        """An action that Hudi can run now; after a crash a write, which rolls it back."""
        if self.has_crashed:
            self.has_crashed = False
            return self.write(self.draw.choice(("upsert", "late", "delete" if self.may_delete else "flag")))
        kinds = {"upsert": 5.0, "late": 3.0, "flag": 2.0, "insert": 1.5, "savepoint": 1.3, "empty": 0.4}
        kinds["delete"] = 2.0 if self.may_delete else 0.0
        if self.shape.release == "1.0.2" and self.version == 6:  # its procedure writes version 8 only
            kinds["savepoint"] = 0.0
        if not self.pending:
            kinds |= self.when_nothing_is_pending()
        if self.shape.index in ("simple", "global"):
            if "clustering" not in self.pending:
                kinds |= {"overwrite": 0.8, "bulk": 1.0, "cluster": 1.2}
                if self.shape.partitioned and not self.pending:
                    kinds["drop"] = 0.5
            else:
                kinds |= {"run clustering": 3.0, "upsert": 0.0, "late": 0.0, "delete": 0.0, "flag": 0.0}
        if self.shape.merge_on_read:
            kinds["run compaction" if "compaction" in self.pending else "compact"] = 3.0
        kind = self.draw.choices(list(kinds), weights=list(kinds.values()))[0]
        return self.action(kind)

    def when_nothing_is_pending(self) -> dict[str, float]:
        """Actions that need a table without pending instants, with their weights."""
        shape, kinds = self.shape, {}
        if not shape.many_writers or (
            self.version >= 8 and not shape.metadata_table
        ):  # on layout 1 a restore stops all ranges
            kinds["crash"] = 0.8
        if shape.many_writers and (self.may_share_keys or shape.partitioned):
            kinds["race"] = 4.0
        if shape.many_writers:
            return kinds
        may_roll_back = self.version == max(VERSIONS[shape.release])  # else the procedure upgrades the table first
        if self.may_undo and may_roll_back:
            kinds["rollback"] = 1.5
        if shape.merge_on_read:
            if not (
                self.has_partial and shape.release == "1.0.2"
            ):  # its log compaction loses a row with such an update
                kinds["log compaction"] = 1.5
            # Hudi also looks up the flag's column in partial rows, and fails
            if self.version >= 8 and shape.event_time and not shape.has_flags and shape.options.meta_columns:
                kinds["partial"] = 3.0
        if self.is_saved and may_roll_back and not (shape.archives or shape.metadata_table):
            kinds["restore"] = 4.0
        is_clear = shape.event_time or not shape.merge_on_read  # otherwise the merge mode changes with the version
        if shape.release == "1.2.0" and self.version < 9 and is_clear and not shape.archives:
            kinds["upgrade"] = 2.5
        return kinds

    @property
    def may_delete(self) -> bool:
        """Whether a delete without ordering value works in the writer (1.0.2 compares it as an int)."""
        is_compared = self.shape.release == "1.0.2" and self.shape.event_time and self.shape.merge_on_read
        return not is_compared or self.shape.ordering == "int"

    def action(self, kind: str) -> Action:
        match kind:
            case "compact" | "cluster":
                return self.service({"compact": "compaction", "cluster": "clustering"}[kind])
            case "run compaction" | "run clustering":
                self.pending.discard(kind[4:])
                return Service(kind[4:], "execute")
            case "savepoint":
                self.is_saved = not self.pending
                return Savepoint()
            case "restore":
                self.is_saved = False
                return Restore()
            case "log compaction":
                return LogCompaction()
            case "partial":
                self.has_partial = True
                return PartialUpdate(self.rows(self.draw.randint(1, 4), fresh=0.0, late=0.3))
            case "upgrade":
                self.version, self.is_saved = {6: 8, 8: 9}[self.version], False
                return Upgrade(self.version, Write("upsert", self.rows(3, late=0.2), columns=self.columns))
            case "empty":
                return EmptyCommit()
            case "drop":
                return DropPartition(self.draw.choice(PARTITIONS))
            case "crash":
                self.has_crashed = not self.shape.many_writers
                return Crash(Write("upsert", self.rows(3), columns=self.columns))
            case "race":
                return self.race()
            case "rollback":
                return Rollback()
            case _:
                return self.write(kind)

    def service(self, kind: str) -> Action:
        """A service, by a procedure or inline with a write."""
        way = self.draw.random()
        if way < 0.4:
            self.pending.add(kind)
            return Service(kind, "schedule")
        # 0.15.0 compacts with other merge rules: the rows before and after a compaction differ
        has_own_rules = kind == "compaction" and self.shape.release == "0.15.0"
        if way < 0.7 or self.pending or has_own_rules:
            return Service(kind, "scheduleAndExecute")
        return Write("upsert", self.rows(3), (kind,), self.columns)

    def write(self, kind: str) -> Write:
        if not self.pending and self.draw.random() < 0.06 and self.columns < 2:
            self.columns += 1
        inline = ("clean",) if self.draw.random() < 0.12 else ()
        count = self.draw.randint(1, 6)
        match kind:
            case "late":
                return Write("upsert", self.rows(count, late=0.8), inline, self.columns)
            case "flag":
                return Write("upsert", self.rows(count, late=0.3, deleted=0.6), inline, self.columns)
            case "delete":
                return Write("delete", self.rows(count, fresh=0.1, late=0.4), inline, self.columns)
            case "insert":
                return Write(
                    "insert", self.rows(count, fresh=0.0 if self.shape.duplicates else 1.0), inline, self.columns
                )
            case "bulk":
                fresh = 0.5 if self.shape.duplicates else 1.0
                return Write("bulk_insert", self.rows(count, fresh=fresh, deleted=0.1), inline, self.columns)
            case "overwrite":
                extent = self.draw.choice(("insert_overwrite", "insert_overwrite", "insert_overwrite_table"))
                return Write(extent, self.rows(count, fresh=0.4), inline, self.columns)
            case _:
                return Write("upsert", self.rows(count, late=0.15), inline, self.columns)

    @property
    def may_share_keys(self) -> bool:
        """Whether two writers may write one file group at once: logs of a bucket (non-blocking concurrency control)."""
        return self.shape.version >= 8 and self.shape.index == "bucket" and self.shape.merge_on_read

    def race(self) -> Race:
        """Two writers, of the same keys or of separate partitions."""
        slow, fast = self.rows(4, late=0.3), self.rows(4, late=0.3)
        if not self.may_share_keys:
            slow = tuple(row for row in slow if row.partition == PARTITIONS[0]) or self.rows_in(PARTITIONS[0])
            fast = tuple(row for row in fast if row.partition != PARTITIONS[0]) or self.rows_in(PARTITIONS[1])
        services = ("compaction",) if self.shape.merge_on_read and self.draw.random() < 0.4 else ()
        return Race(Write("upsert", slow, (), self.columns), Write("upsert", fast, services, self.columns))

    def rows_in(self, partition: str) -> tuple[Row, ...]:
        return (self.row(self.fresh_key(partition), late=0.0, deleted=0.0),)

    def rows(self, count: int, *, fresh: float = 0.25, late: float = 0.1, deleted: float = 0.0) -> tuple[Row, ...]:
        """Rows of distinct keys: `fresh` of them new to the table, `late` below a possibly stored ordering value."""
        known = list(self.homes)
        keys: dict[str, None] = {}
        for _ in range(count):
            is_fresh = not known or self.draw.random() < fresh
            keys[self.fresh_key() if is_fresh else self.draw.choice(known)] = None
        return tuple(self.row(key, late=late, deleted=deleted) for key in keys)

    def row(self, key: str, *, late: float, deleted: float) -> Row:
        is_late = self.draw.random() < late
        ordering = self.draw.randint(-2, self.clock - 1) if is_late else self.clock + self.draw.randint(0, 2)
        self.value += 1
        partition = self.homes[key]
        if self.shape.partitioned and not self.shape.many_writers and self.draw.random() < 0.08:
            partition = self.draw.choice(PARTITIONS)
            if self.shape.index == "global":
                self.homes[key] = partition
        return Row(key, ordering, self.value, partition, self.draw.random() < deleted and self.shape.has_flags)

    def fresh_key(self, partition: str = "") -> str:
        self.new_keys += 1
        key = f"{self.prefix}{self.new_keys}"
        choices = (*PARTITIONS, None) if self.shape.null_partition else PARTITIONS
        self.homes[key] = partition or self.draw.choice(choices)
        return key

"""Random steps of a table that Hudi and Penstock write in turn. Pure: the next step is a function of the model's state
and of a seeded generator."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.interop.mixed.oracle import Model
from tests.interop.mixed.shapes import ADDED, CITIES, Row, Shape


@dataclass(frozen=True, slots=True)
class Write:
    """A write by one of the two."""

    by_penstock: bool
    """Whether Penstock writes, or Hudi."""
    operation: str
    """Hudi's name of the operation."""
    rows: tuple[Row, ...]
    """The rows in the order of the input; keys may repeat in an upsert."""
    services: tuple[str, ...] = ()
    """What the writer does after its write: clean, archive; Hudi also compaction."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """A compaction: `schedule`, `execute` of the scheduled one, or `scheduleAndExecute`."""

    step: str
    by_penstock: bool = False


@dataclass(frozen=True, slots=True)
class Clustering:
    """A clustering of all file groups, sorted by a column."""

    sort_by: str
    planned_by_penstock: bool
    run_by_penstock: bool


@dataclass(frozen=True, slots=True)
class Rollback:
    """Hudi's rollback of the newest write, which is complete."""


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint of the newest write, which is complete."""

    by_penstock: bool


@dataclass(frozen=True, slots=True)
class DeleteSavepoint:
    """The end of the savepoint."""

    by_penstock: bool


@dataclass(frozen=True, slots=True)
class Restore:
    """A restore of the table to the savepoint, which stays."""

    by_penstock: bool


@dataclass(frozen=True, slots=True)
class Crash:
    """A write that dies: Penstock's process is killed, or a task of Hudi fails."""

    write: Write
    at: int
    """Of Penstock: the call of storage at which the process is killed."""


Step = Write | Compaction | Clustering | Rollback | Savepoint | DeleteSavepoint | Restore | Crash


@dataclass(slots=True)
class StepGenerator:
    """Draws one step after the other."""

    draw: random.Random
    shape: Shape
    can_roll_back: bool
    """Whether Hudi's procedure rolls back without an upgrade of the table."""
    orders_deletes: bool = True
    """Whether Hudi compares the ordering values of deletes in logs. For 0.15.0 (`hudi_deviations`, rule 8) a delete
    wins over every row before it and loses against every row after it, so that their values must say the same."""
    max_level: int = len(ADDED)
    """The last schema change. 0.15.0 reads a column that was widened later neither in a Parquet log block nor in the
    base files of a global index."""
    clusters_by_hudi: bool = True
    """Whether a clustering of Hudi changes no row (`hudi_deviations`, rule 8), and Hudi can go on: with a global index
    0.15.0 does not read its own clustered files if a column of the table's schema has no null."""
    clock: int = 10
    value: int = 0
    new_keys: int = 0
    writes: int = 0
    last: Step | None = None
    deleted: set[int] = field(default_factory=set)
    crashed: bool = False
    """Whether a failed write is pending."""
    has_savepoint: bool = False
    since_savepoint: int = 0
    """Steps after the savepoint, or after the restore to it."""
    restored: bool = False
    """Whether the table was restored to its savepoint."""
    overwrote_savepoint: bool = False
    """Whether the table was overwritten after the savepoint. A clean of Hudi (0.15.0 and 1.2.0) then deletes the
    folders of partitions whose file groups are all replaced, with the files of the savepoint."""

    def next(self, model: Model) -> Step:
        """The next step of a table in this state."""
        self.clock += 3
        self.last = self._next(model)
        self.writes += isinstance(self.last, Write)
        self.crashed = isinstance(self.last, Crash)
        self.since_savepoint = 0 if isinstance(self.last, Savepoint | Restore) else self.since_savepoint + 1
        if isinstance(self.last, Savepoint | DeleteSavepoint):
            self.has_savepoint = isinstance(self.last, Savepoint)
            self.restored = False
        self.restored |= isinstance(self.last, Restore)
        if isinstance(self.last, Savepoint | DeleteSavepoint | Restore):
            self.overwrote_savepoint = False
        elif isinstance(self.last, Write) and self.last.operation == "insert_overwrite_table":
            self.overwrote_savepoint = self.has_savepoint
        return self.last

    def _next(self, model: Model) -> Step:
        if self.last is None:
            operation = self.draw.choice(("insert", "upsert", "bulk_insert"))
            by_penstock = self.shape.by_penstock and self.draw.random() < 0.5
            return Write(by_penstock, operation, self.rows(model, self.draw.randint(5, 12), fresh=1.0))
        kinds = {"upsert": 5.0, "late": 2.0, "repeated": 1.5, "insert": 1.5, "delete": 2.0, "overwrite": 0.8}
        kinds |= {"marked": 2.0 if self.shape.marker else 0.0, "bulk": 0.0 if self.shape.buckets else 1.0}
        kinds["crash"] = 1.0
        if self.shape.merge_on_read:
            kinds["compact"] = 2.5
        if not self.shape.buckets:
            kinds["cluster"] = 1.2
        kinds |= self._returns()
        if model.planned:
            # a savepoint of Hudi has only the newest slice of a group then, without the base file beneath its logs
            kinds |= dict.fromkeys(("overwrite", "rollback", "crash", "cluster", "restore", "savepoint"), 0.0)
        if self.crashed:  # a write rolls it back
            kinds |= dict.fromkeys(("compact", "rollback", "crash", "cluster", "restore", "delete_savepoint"), 0.0)
        kind = self.draw.choices(list(kinds), weights=list(kinds.values()))[0]
        match kind:
            case "compact" if model.planned:
                return Compaction("execute", by_penstock=self.draw.random() < 0.5)
            case "compact":
                step = self.draw.choice(("schedule", "scheduleAndExecute"))
                return Compaction(step, by_penstock=self.draw.random() < 0.5)
            case "cluster":
                sort_by = self.draw.choice(("id", "qty"))
                planned_by_penstock, run_by_penstock = self.draw.random() < 0.5, self.draw.random() < 0.5
                return Clustering(sort_by, planned_by_penstock, run_by_penstock or not self.clusters_by_hudi)
            case "rollback":
                return Rollback()
            case "savepoint" | "delete_savepoint" | "restore":
                # Penstock refuses tables with a metadata table
                by_penstock = self.draw.random() < 0.5 and not self.shape.metadata
                if kind == "restore":
                    return Restore(by_penstock)
                return Savepoint(by_penstock) if kind == "savepoint" else DeleteSavepoint(by_penstock)
            case "crash":
                return Crash(self.write(model, "upsert", services=False), self.draw.randint(1, 30))
        return self.write(model, kind)

    def _returns(self) -> dict[str, float]:
        """Weights of the steps that go back to an older state."""
        follows_write = isinstance(self.last, Write) and not self.last.services
        return {
            "rollback": 1.0 if follows_write and self.can_roll_back and self.writes > 1 else 0.0,
            "savepoint": 2.0 if follows_write and not self.has_savepoint else 0.0,
            "delete_savepoint": 0.3 if self.has_savepoint and self.since_savepoint else 0.0,
            # Hudi refuses a second restore of a metadata table that the first one created again
            "restore": 2.0
            if self.has_savepoint and self.since_savepoint > 1 and not (self.restored and self.shape.metadata)
            else 0.0,
        }

    def write(self, model: Model, kind: str, *, services: bool = True) -> Write:
        """A write of the kind, by one of the two."""
        by_penstock = self.draw.random() < 0.55
        count, level = self.draw.randint(1, 6), self._level(model, by_penstock, kind)
        match kind:
            case "late":
                operation, rows = "upsert", self.rows(model, count, late=0.8, level=level)
            case "marked":
                operation, rows = "upsert", self.rows(model, count, fresh=0.1, late=0.3, marked=0.6, level=level)
            case "repeated":
                rows = self.rows(model, count, late=0.3, marked=0.3, level=level)
                again = self.rows(model, 3, keys=[row.key for row in rows], late=0.4, marked=0.2, level=level)
                operation, rows = "upsert", tuple(self.draw.sample([*rows, *again], len(rows) + len(again)))
            case "delete":
                operation, rows = "delete", self.rows(model, count, fresh=0.2, late=0.3, level=level)
            case "insert" | "bulk":
                operation = "insert" if kind == "insert" else "bulk_insert"
                rows = self.rows(model, count, fresh=1.0, level=level)
            case "overwrite":
                operation = self.draw.choice(("insert_overwrite", "insert_overwrite", "insert_overwrite_table"))
                # a key that is stored in another partition, which is not replaced, would be there twice
                rows = self.rows(model, count, fresh=1.0 if self.shape.is_global else 0.4, level=level)
            case _:
                operation, rows = "upsert", self.rows(model, count, late=0.15, level=level)
        if self.shape.buckets and self.shape.merge_on_read:
            rows = tuple(row for row in rows if self._has_group(model, row) or not (row.deleted or kind == "delete"))
        if self.shape.merge_on_read and not self.shape.buckets and model.planned:
            rows = tuple(row for row in rows if not self._outlives_base(model, row))
        if not rows:  # not a delete: it would be in no file group
            operation = "upsert" if kind == "delete" else operation
            rows = self.rows(model, 1, fresh=1.0, level=level)
        self.deleted |= {row.key for row in rows if row.deleted or operation == "delete"}
        if self.has_savepoint and operation == "insert_overwrite_table":
            services = services and by_penstock
        return Write(by_penstock, operation, rows, self._services(by_penstock, model) if services else ())

    def _services(self, by_penstock: bool, model: Model) -> tuple[str, ...]:
        """What the writer does after its write."""
        if model.planned or self.draw.random() < 0.75:
            return ()
        if self.overwrote_savepoint and not by_penstock:
            return ()
        choices = [("clean",), ("clean", "archive")]
        if by_penstock and self.shape.metadata:  # it does not archive tables with a metadata table
            return choices[0]
        compacts = self.shape.merge_on_read and not by_penstock
        return self.draw.choice([*choices, ("compaction",)] if compacts else choices)

    def _level(self, model: Model, by_penstock: bool, kind: str) -> int:
        """How many schema changes the write's data has. Hudi refuses data that lacks a column."""
        if kind != "delete" and not model.planned and model.level < self.max_level and self.draw.random() < 0.08:
            return model.level + 1
        return self.draw.randint(0, model.level) if by_penstock and self.draw.random() < 0.3 else model.level

    def _outlives_base(self, model: Model, row: Row) -> bool:
        """Whether the pending compaction removes the base row and leaves this row in a log. The simple index of both
        reads base files only: a later write of such a key is a second row, also by Hudi 1.2.0."""
        if self.shape.is_global:
            return False
        cell = model.cells.get((row.city if self.shape.partitioned else None, row.key))
        return cell is not None and cell.base is not None and model.visible(cell) is None

    def _has_group(self, model: Model, row: Row) -> bool:
        return (row.city if self.shape.partitioned else None, model.bucket(row.key)) in model.groups

    def rows(
        self,
        model: Model,
        count: int,
        *,
        keys: list[int] | None = None,
        fresh: float = 0.25,
        late: float = 0.0,
        marked: float = 0.0,
        level: int = 0,
    ) -> tuple[Row, ...]:
        """Rows of distinct keys: `fresh` of them new, `late` below a possibly stored ordering, `marked` deletes."""
        known = {key: city for city, key in model.cells}
        chosen: dict[int, str | None] = {}
        for _ in range(count):
            if keys is not None:
                key = self.draw.choice(keys)
                chosen[key] = known.get(key, CITIES[key % len(CITIES)])
            elif not known or self.draw.random() < fresh:
                self.new_keys += 1
                chosen[self.new_keys] = CITIES[self.new_keys % len(CITIES)]
            else:
                key = self.draw.choice(list(known))
                moves = self.draw.random() < (0.4 if self.shape.is_global else 0.06)
                chosen[key] = self.draw.choice(CITIES) if moves else known[key]
        return tuple(self._row(key, city, late, marked, level) for key, city in chosen.items())

    def _row(self, key: int, city: str | None, late: float, marked: float, level: int) -> Row:
        # where the base rows do not follow from the writes, a row after a delete is the newest one
        is_known = self.orders_deletes and (self.shape.layout_is_known or not self.shape.merge_on_read)
        is_known = is_known and not self.shape.is_global
        may_be_late = is_known or key not in self.deleted
        is_late = self.draw.random() < late and may_be_late
        ordering = self.draw.randint(1, self.clock - 1) if is_late else self.clock + self.draw.randint(0, 2)
        self.value += 1
        deleted = self.shape.marker and self.draw.random() < marked
        if deleted and not self.orders_deletes:
            ordering = max(ordering, self.clock)
        return Row(key, ordering, self.value, city, deleted, level)

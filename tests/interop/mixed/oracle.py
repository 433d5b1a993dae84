"""A slow model of a table: each write is applied row by row, each read merges key by key. Shares no code with Penstock.

Per key it has the row in the base file and the entries of the log, because what a late row meets depends on them: a
delete in a log still hides older rows, and a compaction forgets it. Source: Hudi `BufferedRecordMergerFactory`,
`HoodieWriteMergeHandle`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.interop.mixed.shapes import Row, Shape, partition_path, record_key


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored record: a row, or a delete."""

    row: Row
    """The row; of a delete by key, only its key and partition count."""
    instant: str
    """The instant of its write."""
    delete: bool = False
    """Whether it deletes the key."""
    always: bool = False
    """A delete by key, which has no ordering value and wins over any."""


@dataclass(slots=True)
class Cell:
    """All records of one key in one partition."""

    base: Entry | None = None
    log: list[Entry] = field(default_factory=list)


@dataclass(slots=True)
class Model:
    """A table."""

    shape: Shape
    old_hudi: bool = False
    """Whether Hudi is 0.15.0, which merges before a write only in partitioned tables."""
    cells: dict[tuple[str | None, int], Cell] = field(default_factory=dict)
    groups: set[tuple[str | None, int]] = field(default_factory=set)
    """The (partition, bucket) of a bucket index that have a file group."""
    late: set[tuple[str, str | None, int]] = field(default_factory=set)
    """(instant, partition, key) of written rows that do not win."""
    level: int = 0
    """Schema changes so far."""
    planned: str = ""
    """The instant of a pending compaction."""
    left: list[Cell] = field(default_factory=list)
    """Global index: the records of deleted keys, and of keys that moved, whose partition or file group got no later
    one."""

    def write(self, operation: str, rows: tuple[Row, ...], instant: str, *, by_hudi: bool = False) -> None:
        """One completed write."""
        self.level = max([self.level, *(row.level for row in rows)])
        if operation in ("insert_overwrite", "insert_overwrite_table"):
            self._replace(None if operation == "insert_overwrite_table" else {self._home(row) for row in rows})
        entries = [
            Entry(row, instant, delete=operation == "delete" or row.deleted, always=operation == "delete")
            for row in rows
        ]
        if self.shape.is_global and operation in ("upsert", "delete"):
            self._write_in_table(entries, by_hudi=by_hudi)
            return
        combined: dict[tuple[str | None, int], Entry] = {}
        for entry in entries:
            place = (self._home(entry.row), entry.row.key)
            combined[place] = self._merged(combined.get(place), entry)
        new_groups = set()
        for (home, key), entry in combined.items():
            cell = self.cells.setdefault((home, key), Cell())
            bucket = (home, self.bucket(key))
            if self.shape.merge_on_read and (bucket in self.groups if self.shape.buckets else cell.base is not None):
                cell.log.append(entry)
            else:
                new_groups.add(bucket)
                merged = self._merged(cell.base, entry)
                cell.base = None if merged.delete else merged
            if self.visible(cell) is not entry:
                self.late.add((instant, home, key))
        self.groups |= new_groups

    def _write_in_table(self, entries: list[Entry], *, by_hudi: bool) -> None:
        """A write that searches its keys in all partitions. Source: Hudi `HoodieIndexUtils`.

        Where Hudi merges the row with the stored one before the write, and the stored one wins, it is written again by
        the instant of the write; Penstock leaves the row out, or in its own partition to the merge.
        """
        is_ordered = self.shape.merge_on_read and bool(self.shape.ordering) and not self.old_hudi
        merges = by_hudi and (self.shape.partitioned or is_ordered)
        combined: dict[int, Entry] = {}
        for entry in entries:
            combined[entry.row.key] = self._merged(combined.get(entry.row.key), entry)
        for key, entry in combined.items():
            stored = [(home, cell) for (home, number), cell in self.cells.items() if number == key]
            live = [(home, cell, shown) for home, cell in stored if (shown := self.visible(cell))]
            if not live:
                in_base = [cell for _, cell in stored if cell.base is not None]
                if in_base and by_hudi and self.shape.merge_on_read and not merges:
                    in_base[0].log.append(entry)  # Hudi's index finds the base row, deleted or not
                elif not entry.delete:
                    self.left += [self.cells.pop((home, key)) for home, _ in stored]
                    self.cells[self._home(entry.row), key] = Cell(base=entry)
                continue
            ((home, cell, shown),) = live
            wins = self._merged(shown, entry) is entry
            moves = not entry.delete and home != self._home(entry.row)
            merges_first = self.shape.merge_on_read or moves or (entry.delete and self.shape.partitioned)
            if entry.delete and self.old_hudi:  # 0.15.0 leaves deletes to the merge of the write
                merges_first = False
            if not wins and merges and merges_first:
                self._put(cell, replace(shown, instant=entry.instant))
            elif wins and moves:
                self._put(cell, Entry(entry.row, entry.instant, delete=True, always=True))
                self.left.append(self.cells.pop((home, key)))
                self.cells[self._home(entry.row), key] = Cell(base=entry)
            elif wins or not moves:
                self._put(cell, entry)
                if not wins:
                    self.late.add((entry.instant, home, key))

    def _put(self, cell: Cell, entry: Entry) -> None:
        """Writes a record into the file group of a stored key."""
        if self.shape.merge_on_read:
            cell.log.append(entry)
        else:
            merged = self._merged(cell.base, entry)
            cell.base = None if merged.delete else merged

    def _replace(self, homes: set[str | None] | None) -> None:
        self.cells = {place: cell for place, cell in self.cells.items() if homes is not None and place[0] not in homes}
        stay = [cell for cell in self.left if homes is not None and cell.base is not None]
        self.left = [cell for cell in stay if cell.base and self._home(cell.base.row) not in (homes or ())]
        self.groups = {group for group in self.groups if homes is not None and group[0] not in homes}

    def compact(self, planned: str) -> None:
        """Merges the logs of writes before the compaction's instant into the base rows."""
        for cell in [*self.cells.values(), *self.left]:
            covered = [entry for entry in cell.log if entry.instant < planned]
            merged = self._folded(cell.base, covered)
            cell.base = None if merged is None or merged.delete else merged
            cell.log = cell.log[len(covered) :]

    def visible(self, cell: Cell) -> Entry | None:
        """The record that a snapshot returns."""
        merged = self._folded(cell.base, cell.log)
        return None if merged is None or merged.delete else merged

    def rows(self, *, read_optimized: bool = False) -> list[Entry]:
        """The visible rows; with `read_optimized` those of base files."""
        cells = [*self.cells.values(), *(self.left if read_optimized else ())]
        found = [cell.base if read_optimized else self.visible(cell) for cell in cells]
        return [entry for entry in found if entry is not None]

    def _folded(self, base: Entry | None, log: list[Entry]) -> Entry | None:
        """The logs are merged with each other first."""
        newest: Entry | None = None
        for entry in log:
            newest = self._merged(newest, entry)
        return base if newest is None else self._merged(base, newest)

    def _merged(self, older: Entry | None, newer: Entry) -> Entry:
        if older is None or not self.shape.ordering or newer.always:
            return newer
        if older.always:  # after a delete without an ordering value, one with a value changes nothing (`DeleteRecord`)
            return older if newer.delete else newer
        return older if older.row.ordering > newer.row.ordering else newer

    def _home(self, row: Row) -> str | None:
        return row.city if self.shape.partitioned else None

    def bucket(self, key: int) -> int:
        """The bucket of a key: Java's hash of the list of its values."""
        if not self.shape.buckets:
            return 0
        text = record_key(self.shape, key)
        values = [part.partition(":")[2] for part in text.split(",")] if self.shape.two_keys else [text]
        total = 1
        for value in values:
            hashed = 0
            for character in value:
                hashed = (31 * hashed + ord(character)) & 0xFFFFFFFF
            total = (31 * total + hashed) & 0xFFFFFFFF
        return (total & 0x7FFFFFFF) % self.shape.buckets

    def path(self, row: Row) -> str:
        """The partition path of a row."""
        return partition_path(self.shape, row.city)

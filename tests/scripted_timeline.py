"""A copy of a golden table whose instants a test requests, completes, delays and removes."""

from __future__ import annotations

import pathlib
import shutil

from penstock.enumerator.planning.commit_order import completed_in_order
from penstock.enumerator.planning.discovery import read_timeline
from penstock.table.hudi_table import HudiTable, open_table


class ScriptedTimeline:
    """Moves an instant's timeline files out of the table and back; data files do not move."""

    def __init__(self, table: pathlib.Path, aside: pathlib.Path) -> None:
        self.path, self.aside = table, aside
        inner = table / ".hoodie" / "timeline"
        self.folder = inner if inner.is_dir() else table / ".hoodie"
        aside.mkdir()
        facts = read_timeline(open_table(str(table)))
        ordered = completed_in_order(facts.timeline, facts.pending_clusterings)
        self.data = [str(item.requested_time) for item in ordered if facts.is_data(item)]
        self.keys = {str(item.requested_time): str(facts.timeline.order_key(item)) for item in ordered}

    def open(self) -> HudiTable:
        return open_table(str(self.path))

    def _files(self, folder: pathlib.Path, instant: str) -> list[pathlib.Path]:
        paths = [path for path in folder.iterdir() if path.is_file()]
        return sorted(path for path in paths if path.name.startswith((f"{instant}.", f"{instant}_")))

    def take(self, *instants: str) -> None:
        """Removes the instants from the timeline."""
        for instant in instants:
            for path in self._files(self.folder, instant):
                shutil.move(path, self.aside / path.name)

    def remove_after(self, instant: str) -> None:
        """Removes all instants requested later, with services."""
        later = {path.name[:17] for path in self.folder.iterdir() if path.is_file() and path.name[:17].isdigit()}
        self.take(*sorted(item for item in later if item > instant))

    def pend(self, instant: str) -> None:
        """Makes the instant pending: its completion file is removed, its requested file is restored."""
        self.give(instant)
        for path in self._files(self.folder, instant):
            if not path.name.endswith((".requested", ".inflight")):
                shutil.move(path, self.aside / path.name)

    def give(self, *instants: str, completed_at: str = "") -> None:
        """Completes the instant again, on layout 2 optionally at another completion time."""
        for instant in instants:
            for path in self._files(self.aside, instant):
                name = path.name
                if completed_at and name.startswith(f"{instant}_"):
                    name = f"{instant}_{completed_at}.{name.partition('.')[2]}"
                shutil.move(path, self.folder / name)

    def rename(self, instant: str, completed_at: str) -> None:
        """Completes the instant at another time."""
        self.take(instant)
        self.give(instant, completed_at=completed_at)

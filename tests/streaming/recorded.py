"""A recorded timeline: a complete Hudi table whose commits are revealed one by one, and Hudi's rows at each.

Reads the files of a table without Penstock: timeline names, commit metadata by fastavro or JSON, Parquet footers by
pyarrow, rows by Hudi. Never imports `penstock`.

The table's `.hoodie` is a symbolic link to one of several folders, one for each number of revealed commits, so that a
step is one atomic rename. Before it the data files of the step are linked into the table, as a writer writes them
before its commit. Data files of later steps are not linked, because on layout 1 the name of a log file does not contain
the commit that wrote it. The tables have no metadata table, which would list files that are not revealed yet.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.streaming.reference_model import Row, Slice

INSTANT = re.compile(r"(\d+)(?:_(\d+))?\.(\w+)(\.\w+)?")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
SERVICES = ("COMPACT", "CLUSTER", "LOG_COMPACT")
Place = tuple[str, int]
"""A position: order key, and the number of that commit's file groups before it."""


@dataclass(frozen=True, slots=True)
class Group:
    """The part of a commit in a file group: a base file, or a log (then `base` is '', and `log` its name).

    `has_event_times`: the file has event times, as any base file, and a log with more than deletes.
    """

    partition: str
    file_id: str
    base: str
    log: str
    has_event_times: bool


@dataclass(frozen=True, slots=True)
class Commit:
    """A completed instant; `order_key` as in docs/reference/semantics.md; `completed`: its completion in any layout."""

    requested: str
    order_key: str
    completed: str
    is_service: bool
    groups: tuple[Group, ...]
    replaced: frozenset[str]
    files: frozenset[str]


@dataclass(frozen=True, slots=True)
class HudiRow:
    """A row as Hudi reads it."""

    row: Row
    partition: str
    file_id: str
    requested: str


class Recorded:
    """A complete table. `commits` are its data commits by order key; a step is a number of them, by completion."""

    def __init__(self, table: pathlib.Path, workspace: pathlib.Path) -> None:
        self.table, self._workspace = table, workspace
        self._folder = table / ".hoodie" / "timeline"
        self.layout = 2 if self._folder.is_dir() else 1
        if self.layout == 1:
            self._folder = table / ".hoodie"
        self.instants = sorted((self._commit(path) for path in self._completed()), key=lambda c: c.order_key)
        self.commits = [commit for commit in self.instants if not commit.is_service]
        self._by_completion = sorted(self.instants, key=lambda commit: commit.completed)
        self.steps = sum(not commit.is_service for commit in self.instants)
        self._bounds: dict[str, Slice] = {}
        self.states: list[list[HudiRow]] = []
        for step in range(1, self.steps + 1):
            self._make(step)

    def view(self, folder: pathlib.Path, step: int) -> View:
        """A separate table with some commits revealed."""
        view = self._laid_out(folder)
        view.reveal(step)
        return view

    def _laid_out(self, folder: pathlib.Path) -> View:
        """The table's files before its first commit, without `.hoodie`."""
        later = {file for commit in self.instants for file in commit.files}
        for path in self.table.rglob("*"):
            name = path.relative_to(self.table)
            if path.is_file() and name.parts[0] != ".hoodie" and str(name) not in later:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                os.link(path, folder / name)
        return View(self, folder)

    def read_states(self, read: Callable[[pathlib.Path], pa.Table], folder: pathlib.Path) -> None:
        """Reads the table with Hudi after each of its commits, in order.

        Hudi follows a link out of the table; with copies of `.hoodie` inside the table it would list every folder.
        """
        view = self._laid_out(folder)
        view.add_files(self.steps)
        for number in range(1, len(self.commits) + 1):
            view.point_at(self._prefix(number))
            self.states.append([_row(record) for record in read(folder).to_pylist()])
        shutil.rmtree(folder)

    def known(self, step: int) -> list[Commit]:
        """The commits that may be read at a step, by order key; on layout 1 those below the earliest pending one."""
        done = self.done(step)
        if self.layout == 1:
            pending = [c.requested for c in self.instants if c not in done and self._has_begun(c, done)]
            done = [commit for commit in done if not pending or commit.requested < min(pending)]
        return sorted((c for c in done if not c.is_service), key=lambda commit: commit.order_key)

    def slices(self, after: Place, upto: Place, step: int) -> list[Slice]:
        """The slices with event times in (after, upto] that are known at a step."""
        known = self.known(step)
        within = [place for place in self.between(after, upto) if place[0] in known]
        return [self._slice(commit, group, step) for commit, group in within if group.has_event_times]

    def between(self, after: Place, upto: Place) -> list[tuple[Commit, Group]]:
        """The file groups in (after, upto], in the order of positions."""
        return [
            (commit, group)
            for commit in self.commits
            for number, group in enumerate(commit.groups)
            if _is_after(commit, number, after) and not _is_after(commit, number, upto)
        ]

    def rows(self, after: Place, upto: Place) -> list[Row]:
        """The rows of the range: of each file group the state after its last commit in the range."""
        within: dict[str, list[Commit]] = {}
        for commit, group in self.between(after, upto):
            within.setdefault(group.file_id, []).append(commit)
        result = []
        for file_id, commits in within.items():
            writers = {commit.requested for commit in commits}
            state = self.states[self.commits.index(commits[-1])]
            result += [r.row for r in state if r.file_id == file_id and r.requested in writers]
        return result

    def snapshot(self, number: int) -> list[tuple[Slice, list[Row]]]:
        """The slices of the table after its first commits, and the rows of each."""
        upto = self.commits[number - 1].order_key
        live: dict[str, tuple[str, Commit, bool]] = {}
        for commit in self.instants:
            if commit.order_key <= upto:
                for group in commit.groups:
                    base, writer, _ = live.get(group.file_id, ("", commit, False))
                    # on layout 1 the name of a log does not contain its writer: a slice has the time of its base file
                    newest = writer if group.log and self.layout == 1 else commit
                    live[group.file_id] = (group.base or base, newest, bool(group.log))
                for file_id in commit.replaced:
                    live.pop(file_id)
        slices = []
        for file_id, (base, commit, has_logs) in live.items():
            rows = [r.row for r in self.states[number - 1] if r.file_id == file_id]
            slices.append((_of_rows(rows, commit) if has_logs else self._of_file(base, commit), rows))
        return slices

    def _slice(self, commit: Commit, group: Group, step: int) -> Slice:
        """The base file's footer, if the commit wrote one, otherwise its rows.

        On layout 1 all later logs belong to a base file, whoever wrote them, because their names do not contain the
        writer.
        """
        logs = [other.log for done in self.done(step) for other in done.groups if other.log]
        has_logs = self.layout == 1 and any(f".{group.file_id}_{commit.requested}.log" in log for log in logs)
        if group.base and not has_logs:
            return self._of_file(group.base, commit)
        state = self.states[self.commits.index(commit)]
        own = [r.row for r in state if r.file_id == group.file_id and r.requested == commit.requested]
        return _of_rows(own, commit)

    def _of_file(self, path: str, commit: Commit) -> Slice:
        if path not in self._bounds:
            times = pq.read_table(self.table / path, columns=["ts"], partitioning=None)["ts"].cast(pa.int64())
            ends = pc.min_max(times)
            self._bounds[path] = Slice(ends["min"].as_py(), ends["max"].as_py(), True, completed_us(commit))
        return self._bounds[path]

    def _completed(self) -> list[pathlib.Path]:
        paths = []
        for path in self._folder.iterdir():
            match = INSTANT.fullmatch(path.name)
            if match and not match[4] and match[3] not in ("inflight", "clean", "rollback"):
                paths.append(path)
        return paths

    def _commit(self, path: pathlib.Path) -> Commit:
        match = INSTANT.fullmatch(path.name)
        assert match
        if self.layout == 2:
            with path.open("rb") as file:
                (metadata,) = list(fastavro.reader(file))
            completed = match[2]
        else:
            metadata = json.loads(path.read_bytes())
            completed = f"{dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC):%Y%m%d%H%M%S%f}"[:17]
        stats = [stat for of_partition in metadata["partitionToWriteStats"].values() for stat in of_partition]
        groups = [_group(stat) for stat in stats]
        files = {name for stat in stats for name in (stat["path"], *(stat["cdcStats"] or {}))}
        replaced = (metadata.get("partitionToReplaceFileIds") or {}).values()
        return Commit(
            requested=match[1],
            order_key=match[2] or match[1],
            completed=completed,
            is_service=metadata["operationType"] in SERVICES,
            groups=tuple(sorted(groups, key=lambda group: (group.partition, group.file_id))),
            replaced=frozenset(file_id for ids in replaced for file_id in ids),
            files=frozenset(files),
        )

    def done(self, step: int) -> list[Commit]:
        """The first data commits to complete, and services before the next one."""
        commits: list[Commit] = []
        for commit in self._by_completion:
            if not commit.is_service and sum(not c.is_service for c in commits) == step:
                break
            commits.append(commit)
        return commits

    def _has_begun(self, commit: Commit, done: Sequence[Commit]) -> bool:
        return commit.requested < max(c.completed for c in done)

    def _make(self, step: int) -> None:
        done = self.done(step)
        begun = {c.requested for c in self.instants if self._has_begun(c, done)}
        self._write(f"step-{step}", {c.requested for c in done}, begun)

    def _prefix(self, number: int) -> pathlib.Path:
        """Instants up to a commit by order key, without pending ones: later services would rename groups."""
        inside = {c.requested for c in self.instants if c.order_key <= self.commits[number - 1].order_key}
        return self._write(f"state-{number}", inside, inside)

    def _write(self, name: str, completed: set[str], begun: set[str]) -> pathlib.Path:
        target = self._workspace / name
        shutil.copytree(self.table / ".hoodie", target)
        timeline = target / self._folder.relative_to(self.table / ".hoodie")
        for path in list(timeline.iterdir()):
            match = INSTANT.fullmatch(path.name.removeprefix(".").removesuffix(".crc"))
            if match:
                is_completed = not match[4] and match[3] != "inflight"
                if match[1] not in (completed if is_completed else begun):
                    path.unlink()
        return target

    def folder(self, step: int) -> pathlib.Path:
        """The `.hoodie` of a step."""
        return self._workspace / f"step-{step}"


class View:
    """A table of a test that reveals more and more commits."""

    def __init__(self, recorded: Recorded, path: pathlib.Path) -> None:
        self.recorded, self.path, self.step = recorded, path, 0

    def reveal(self, step: int) -> None:
        """Reveals a step atomically."""
        self.add_files(step)
        hoodie = self.recorded.folder(step)
        inside = self.path / ".steps" / hoodie.name  # a link out of the table would be refused
        if not inside.exists():
            shutil.copytree(hoodie, inside, copy_function=os.link)
        self.point_at(inside.relative_to(self.path))
        self.step = step

    def add_files(self, step: int) -> None:
        """The data files of the commits of a step."""
        for name in {file for commit in self.recorded.done(step) for file in commit.files}:
            if not (self.path / name).exists():
                os.link(self.recorded.table / name, self.path / name)

    def point_at(self, hoodie: pathlib.Path) -> None:
        """Makes the folder the table's `.hoodie`."""
        link = self.path / ".hoodie.next"
        link.symlink_to(hoodie, target_is_directory=True)
        link.replace(self.path / ".hoodie")


def completed_us(commit: Commit) -> int:
    """The time of completion in microseconds; on layout 1, which does not record it, the time of the request."""
    at = dt.datetime.strptime(commit.order_key, "%Y%m%d%H%M%S%f").replace(tzinfo=dt.UTC)
    return (at - EPOCH) // dt.timedelta(microseconds=1)


def _group(stat: dict[str, Any]) -> Group:
    path = stat["path"]
    is_base = path.endswith(".parquet")
    return Group(
        partition=stat["partitionPath"],
        file_id=stat["fileId"],
        base=path if is_base else "",
        log="" if is_base else path,
        has_event_times=is_base or stat["numInserts"] + stat["numUpdateWrites"] > 0,
    )


def _is_after(commit: Commit, number: int, place: Place) -> bool:
    if commit.order_key != place[0]:
        return commit.order_key > place[0]
    return number >= place[1]


def _of_rows(rows: Sequence[Row], commit: Commit) -> Slice:
    times = [row.ts for row in rows if row.ts is not None]
    return Slice(min(times, default=None), max(times, default=None), False, completed_us(commit))


def _row(record: dict[str, Any]) -> HudiRow:
    ts = record["ts"]
    micros = None if ts is None else (ts - EPOCH) // dt.timedelta(microseconds=1)
    return HudiRow(
        row=Row(record["id"], micros, record["g"], record["n"]),
        partition=record["_hoodie_partition_path"],
        file_id=record["_hoodie_file_name"].split("_")[0],
        requested=record["_hoodie_commit_time"],
    )

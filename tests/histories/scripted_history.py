"""A history as a test writes it: lines of a server and of readers, and a good history of two readers."""

from __future__ import annotations

import copy
import json
import pathlib
from typing import Any

from tests.histories.history import History, Json, joined

SERVER = "server"
ROUNDS = ("r0", "r1")
ROWS = 10


class Script:
    """Files of lines. The clock advances by a microsecond with each line."""

    def __init__(self, epoch: int = 1) -> None:
        """`epoch`: of the server; above 1 it continues a state that is older than the history."""
        self.files: dict[str, list[Json]] = {}
        self.now_ns = 0
        self._requests = 0
        self.line(SERVER, state="s", directory="", epoch=epoch)

    def line(self, name: str, **fields: Any) -> int:
        """Appends a line to a file, which begins with its process. Its number."""
        if name not in self.files:
            self.files[name] = []
            self.line(name, process=len(self.files), group=0)
        self.now_ns += 1000
        lines = self.files[name]
        lines.append({"n": len(lines), "t": self.now_ns, **fields})
        return len(lines) - 1

    def call(self, name: str, method: str, question: Json, answer: Json | None = None, code: str = "OK") -> None:
        """A call with its answer. `code` is empty: it was never answered, but the server had it."""
        self._requests += 1
        request = f"q{self._requests}"
        number = self.line(name, ask=method, request=request, **question)
        if code in ("OK", ""):
            self.line(SERVER, served=method, request=request)
        if code:
            self.line(name, answer=number, code=code, **(answer or {}))

    def join(self, reader_id: str, epoch: int, lost: str = "", *, reads: bool = True) -> None:
        """A reader joins; without `reads` a test that calls the server itself. `lost`: what the group does about a
        range that is lost."""
        question = {"group": "g", "reader": reader_id, "table": "t", "over": False, "lost": lost}
        self.call(reader_id, "JoinGroup", question, {"member": ["t", "g", reader_id, epoch]})
        if reads:
            self.line(reader_id, reads=["t", "g", reader_id, epoch])

    def scan(self, reader_id: str, plan_id: str, *, every_row: bool = True) -> None:
        """A reader asks how a round is read: every row of its files, or those of a condition or a range."""
        self.call(reader_id, "DescribePlan", {"plan": plan_id}, {"every_row": every_row})

    def assign(
        self, reader_id: str, epoch: int, plan_id: str, index: int, start: int = 0, topic: list[Any] | None = None
    ) -> None:
        """A reader receives a split."""
        split: Json = {
            "place": [plan_id, index],
            "split": f"{plan_id}:{index}",
            "lane": ["p", f"fg{index}"],
            "start": start,
            "position": [plan_id, 0],
            "of": ["", 0],
        }
        if topic is not None:
            split["topic"] = topic
        question = {"member": ["t", "g", reader_id, epoch], "sequence": 1}
        self.call(reader_id, "RequestSplits", question, {"kind": "assignments", "splits": [split]})

    def deliver(
        self, reader_id: str, epoch: int, plan_id: str, index: int, first: int, after: int, start: int = 0
    ) -> None:
        """A reader returns a batch."""
        lines = self.files.get(reader_id, [])
        sequence = 1 + sum(line.get("member") == ["t", "g", reader_id, epoch] and "delivered" in line for line in lines)
        rows = [plan_id, f"{plan_id}:{index}", start, first, after, sequence]
        self.line(reader_id, delivered=rows, member=["t", "g", reader_id, epoch])

    def commit(
        self,
        reader_id: str,
        epoch: int,
        plan_id: str,
        index: int,
        ordinal: int = ROWS,
        code: str = "OK",
        *,
        finished: bool = False,
    ) -> None:
        """A reader commits up to a row; the last one ends the split."""
        done = [plan_id, index, ordinal, finished or ordinal == ROWS]
        question = {"member": ["t", "g", reader_id, epoch], "done": [done]}
        self.call(reader_id, "CommitSplits", question, code=code)

    def read(self, reader_id: str, epoch: int, plan_id: str, index: int) -> None:
        """A reader reads a whole split."""
        self.assign(reader_id, epoch, plan_id, index)
        self.deliver(reader_id, epoch, plan_id, index, 0, ROWS)
        self.commit(reader_id, epoch, plan_id, index)

    def describe(self, committed: str) -> None:
        """An operator asks for the position."""
        described = {"table": "t", "group": "g", "committed": [committed, 0]}
        self.call("operator", "DescribeGroup", {"table": "t", "group": "g"}, {"described": described})

    def lose_range(self, table: str = "t") -> None:
        """The server moves the group past a range that is lost."""
        number = self.line(SERVER, ask="RangeLost", request="", table=table, group="g")
        self.line(SERVER, answer=number, code="OK")

    def open_plan(self, plan_id: str, splits: int, slots: int) -> None:
        """A reader opens a plan."""
        self.call("task", "OpenPlan", {}, {"plan": plan_id, "splits": splits, "slots": slots})

    def reset(self, dry_run: bool = False) -> None:
        """An operator resets the group."""
        question = {"table": "t", "group": "g", "dry_run": dry_run}
        self.call("operator", "ResetGroup", question, {"before": ["r1", 0], "after": ["", 0]})

    def end_of_group(self, reader_id: str, epoch: int) -> None:
        """The group tells a reader that it ended."""
        question = {"member": ["t", "g", reader_id, epoch], "sequence": 9}
        self.call(reader_id, "RequestSplits", question, {"kind": "end_of_group", "splits": []})

    def ended(self) -> dict[str, list[Json]]:
        """The files, each with its end."""
        files = copy.deepcopy(self.files)
        for lines in files.values():
            lines.append({"n": len(lines), "t": self.now_ns, "end": True})
        return files

    def write(self, folder: pathlib.Path) -> None:
        """Writes the files into a folder."""
        for name, lines in self.ended().items():
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def history(self) -> History:
        """The history of these files."""
        return joined(self.ended())


def two_readers() -> Script:
    """A good history: a reads and commits half of a split and loses its lease, b reads the rest and everything else; a
    plan of two entries; the group is reset at the end."""
    script = Script()
    script.join("a", 1)
    script.join("b", 2)
    script.assign("a", 1, "r0", 0)
    script.scan("a", "r0")
    script.deliver("a", 1, "r0", 0, 0, 5)
    script.commit("a", 1, "r0", 0, 5)
    script.deliver("a", 1, "r0", 0, 5, ROWS)
    script.read("b", 2, "r0", 1)
    script.describe("")
    script.assign("b", 2, "r0", 0, 5)
    script.commit("a", 1, "r0", 0, code="FENCED")
    script.deliver("b", 2, "r0", 0, 5, ROWS, 5)
    script.commit("b", 2, "r0", 0, code="")
    script.commit("b", 2, "r0", 0)
    script.describe("r0")
    script.read("b", 2, "r1", 0)
    script.read("b", 2, "r1", 1)
    script.describe("r1")
    script.end_of_group("b", 2)
    script.open_plan("p", splits=2, slots=1)
    for index, split in enumerate(("x", "y", None)):
        script.call("task", "NextSplit", {"entry": ["p", 0, index]}, {"split": split})
    script.call("task", "NextBatch", {"point": ["1", 0]}, {"point": ["2", 0]})
    script.reset()
    script.describe("")
    return script

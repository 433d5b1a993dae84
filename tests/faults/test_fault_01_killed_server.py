"""Fault 1, at the server: SIGKILL before an append, between the append and the reply, and after the reply.

A call without an answer is repeated at the next process. A durable call gets the same answer; any other call has had no
effect. Finally every split is finished once, and the changes equal Hudi's.
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.consumer import Consumer
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.proto.errors import StorageError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import AssignedSplit, GroupScope, GroupSpec, SplitProgress
from penstock.proto.model.queries import Changes, PlanRequest, RoundLimits
from penstock.proto.model.reports import EndOfSlot
from penstock.proto.model.splits import Scan, Split
from penstock.reader.read_split import read_split
from tests.faults.served import CASE, ONCE, Served, check_changes, end, penstock, until, written
from tests.progress import PROGRESS_S

pytestmark = pytest.mark.golden
REQUEST = PlanRequest(table="t", query=Changes(ChangeFormat.HUDI))
SPEC = GroupSpec(scope=GroupScope(request=REQUEST), limits=RoundLimits(max_commits=4))
Answers = dict[str, Any]
Call = tuple[str, Callable[[Answers], Any]]


def chain(server: Served, calls: Iterable[Call]) -> Answers:
    """Each call runs in a process that is killed before it appends, then in one that is killed before it replies; after
    an answer, the next call kills the process. All answers to one call are equal."""
    state = server.log.parent / "state"
    answers: Answers = {}
    last: Call | None = None
    for name, call in calls:
        for failpoint in ("append.before", "append.after"):
            before = records(state)
            server.start(f"{failpoint}=kill")
            if last is not None:
                answer = last[1](answers)
                assert answers.setdefault(last[0], answer) == answer == last[1](answers)
            with pytest.raises(StorageError):
                call(answers)
            server.wait_killed()
            appended = records(state) - before
            assert appended == (failpoint == "append.after"), f"{name}: {failpoint}: {appended} records were appended"
        last = name, call
    assert last is not None
    server.start()
    answers[last[0]] = last[1](answers)
    return answers


def records(state: pathlib.Path) -> int:
    """Number of records that a new process reads."""
    store = open_sqlite(state)
    try:
        return sum(1 for _ in store.records())
    finally:
        store.close()


def rows(scan: Scan, split: Split) -> Iterator[pa.RecordBatch]:
    return (part.batch for part in read_split(scan, split))


@pytest.mark.exhaustive
def test_fault_01_each_call_of_a_group_counts_once(golden: Any, tmp_path: pathlib.Path) -> None:
    server = Served(tmp_path, golden.table(CASE))
    client = server.client(ONCE)
    with server.start():
        first = client.join_group("g", "r1", SPEC, "first").member
        until(lambda: client.describe_group("t", "g").rounds >= 3, "all rounds")
        [early] = client.request_splits(first, 1, 1).splits  # type: ignore[union-attr]
        server.kill()

        def commit(answers: Answers) -> None:
            assigned: tuple[AssignedSplit, ...] = answers["request"].splits
            done = tuple(SplitProgress(ref=one.ref, ordinal=9, finished=True) for one in assigned)
            client.commit_splits(first, done)

        calls: list[Call] = [
            ("join", lambda _: client.join_group("g", "r2", SPEC, "second")),
            ("request", lambda _: client.request_splits(first, 3, 2)),
            ("commit", commit),
        ]
        answers = chain(server, calls)
        assigned: tuple[AssignedSplit, ...] = answers["request"].splits
        assert len(assigned) == 3 and early not in assigned
        batches = [batch for one in assigned for batch in rows(client.describe_plan(one.ref.plan_id), one.split)]
        splits = [one.split.split_id for one in assigned]
        with consumer(server, "r1") as one, consumer(server, "r2") as two:
            until(lambda: [drain(reader, batches, splits) for reader in (one, two)] == [True, True], "the end")
        assert early.split.split_id in splits and len(splits) == len(set(splits))
        check_changes(golden, batches)


def drain(reader: Consumer, batches: list[pa.RecordBatch], splits: list[str]) -> bool:
    """Reads and commits available batches; returns whether nothing is left."""
    while (consumed := reader.poll(0)) is not None:
        batches.append(consumed.batch)
        reader.commit(consumed)
        splits += [consumed.split_id] if consumed.end_of_split else []
    return reader.caught_up


def consumer(server: Served, reader_id: str) -> Consumer:
    return Consumer(server.address, "t", group="g", reader_id=reader_id, query="cdc", cdc_format="hudi", max_splits=2)


@pytest.mark.exhaustive
def test_fault_01_each_call_of_a_plan_counts_once(golden: Any, tmp_path: pathlib.Path) -> None:
    server = Served(tmp_path, golden.table(CASE))
    client = server.client(ONCE)
    with server.start():
        server.kill()
        request = PlanRequest(table="t", query=REQUEST.query, slots=2)

        calls: list[Call] = [
            ("open", lambda _: client.open_plan(request, "once")),
            ("next", lambda answers: client.next_split(answers["open"].plan_id, 0, 0)),
        ]
        answers = chain(server, calls)
        opened, batches, splits = answers["open"], [], []
        for slot in range(opened.slots):
            for index in itertools.count():
                answer = client.next_split(opened.plan_id, slot, index)
                if isinstance(answer, EndOfSlot):
                    break
                assert (slot, index) != (0, 0) or answer == answers["next"]
                splits.append(answer.split.split_id)
                batches += rows(opened.scan, answer.split)
        assert len(splits) == len(set(splits)) == opened.splits
        check_changes(golden, batches)


@pytest.mark.exhaustive
def test_fault_01_reader_survives_repeated_kills_of_the_server(golden: Any, tmp_path: pathlib.Path) -> None:
    """Every process is killed at its 12th append, alternately before and after it, until the reader has all rows."""
    server = Served(tmp_path, golden.table(CASE), lease="10m")  # a start may take as long as a short one
    out = tmp_path / "out"
    with server.start("append.after=kill@12"):
        arguments = ["t", "--server", server.address, "--group", "g", "--reader-id", "r", "--query", "cdc"]
        more = ["--cdc-format", "hudi", "--max-splits", "1", "--max-commits-per-trigger", "1", "--format", "jsonl"]
        log = tmp_path / "tail.log"
        reader = penstock("tail", *arguments, *more, "--output-dir", out, "--exit-at-end", log=log)
        processes = 1
        try:
            for failpoint in itertools.cycle(("append.before", "append.after")):
                assert server.process is not None
                until(lambda: server.process.poll() is not None or reader.poll() is not None, "an end")  # type: ignore[union-attr]
                if reader.poll() is not None:
                    break
                server.wait_killed()
                server.start(f"{failpoint}=kill@12", ready=False)
                processes += 1
            assert reader.wait(PROGRESS_S) == 0, log.read_text()[-2000:]
        finally:
            end(reader)
    assert processes >= 4
    check_changes(golden, written(out))

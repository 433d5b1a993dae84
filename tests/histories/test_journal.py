"""The stored records agree with what a server said; a record that is lost or changed is found."""

from __future__ import annotations

import contextlib
import json
import pathlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

import penstock
from penstock.enumerator.core.state import State, apply
from penstock.enumerator.core.stored.codec import decode_record, encode_record
from penstock.enumerator.core.stored.log_compaction import compacted_records
from penstock.enumerator.server.assembly import running_service
from penstock.enumerator.server.config.settings import Settings, TableSettings
from penstock.enumerator.server.run import serve_enumerator
from penstock.enumerator.store.protocol import StoredRecord
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.proto.client.client import EnumeratorClient
from tests.histories.history import History, joined
from tests.histories.hook import Recording, judged
from tests.histories.journal import FROM, REPLAYER, check_journals, check_kept_states, check_kills, keep_state
from tests.loopback_ports import free_port

pytestmark = pytest.mark.golden
CASE = "B_v9_inc_mor"
CHANGES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "group-created": ("progress", lambda progress: {**progress, "position": ["1", 2147483647]}),
    "reader-joined": ("epoch", lambda epoch: epoch + 1),
    "round-planned": ("plan", lambda plan: plan[:-1] + "x"),
    "splits-assigned": ("splits", lambda splits: [[plan, 1 - index] for plan, index in splits]),
    "splits-committed": ("finished", lambda finished: []),
    "reader-gone": ("reader", lambda reader: "b"),
    "plan-opened": ("slots", lambda slots: slots + 1),
    "slots-asked": ("slots", lambda slots: []),
}
"""For each kind of record: a field, and another value of it."""


@pytest.fixture(scope="module")
def recorded(golden: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[History, pathlib.Path]]:
    """The history of a group that two readers read in part, and of a plan; the state is copied in between."""
    state, recording = tmp_path_factory.mktemp("served") / "state", Recording()
    address = f"127.0.0.1:{free_port()}"
    settings = Settings(
        tables={"t": TableSettings(path=str(golden.table(CASE)))}, listen=address, state=str(state), poll_interval_ms=50
    )
    recording.begin()
    with running_service(settings) as service, serve_enumerator(service, groups=service, settings=settings):
        client = EnumeratorClient(address)
        with penstock.Consumer(address, "t", group="g", reader_id="a", max_splits=1) as reader:
            first = reader.poll()
            assert first is not None
            reader.commit(first)
            client.describe_group("t", "g")
            keep_state(state)
            second = reader.poll()
            assert second is not None
            client.describe_group("t", "g")
        part = {"group": "some", "max_splits": 1, "where": "_hoodie_record_key > ''"}
        with penstock.Consumer(address, "t", reader_id="c", **part) as reader:
            assert reader.poll() is not None
        rows = penstock.read("t", server=address).read_all()
        assert rows.num_rows
        client.close()
    recording.stop()
    yield judged(recording.folder), recording.folder
    shutil.rmtree(recording.folder)


def state_of(history: History) -> tuple[str, pathlib.Path]:
    """The id of the state, and its directory."""
    [(state, directory)] = history.directories.items()
    return state, pathlib.Path(directory)


def doctored(records: list[StoredRecord], history: History, copy: pathlib.Path) -> list[str]:
    """What is found if the directory had these records."""
    state, directory = state_of(history)
    shutil.copytree(directory, copy)
    store = open_sqlite(copy)
    store.rewrite(records)
    store.close()
    return REPLAYER.differences(copy, history, state)


def test_calls_are_recorded_by_client_server_and_reader(recorded: tuple[History, pathlib.Path]) -> None:
    history, _ = recorded
    names = [call.name for call in history.calls if call.is_ok]
    assert {"JoinGroup", "RequestSplits", "CommitSplits", "DescribeGroup", "OpenPlan", "NextSplit"} <= set(names)
    assert len(history.delivered) == 3
    assert {batch.member for batch in history.delivered} == history.readers
    assert {batch.plan_id for batch in history.delivered if batch.member[1] == "g"} == history.unfiltered
    assert all(call.state in history.directories for call in history.calls)


def test_records_of_a_server_agree_with_its_answers(recorded: tuple[History, pathlib.Path]) -> None:
    state, directory = state_of(recorded[0])
    assert REPLAYER.differences(directory, recorded[0], state) == []


def test_each_removed_record_is_found(recorded: tuple[History, pathlib.Path], tmp_path: pathlib.Path) -> None:
    history, _ = recorded
    records = stored(state_of(history)[1], tmp_path)
    assert doctored(records, history, tmp_path / "whole") == []
    for index, record in enumerate(records):
        left = records[:index] + records[index + 1 :]
        assert doctored(left, history, tmp_path / str(index)), f"record {index} is lost: {record}"


def test_each_changed_record_is_found(recorded: tuple[History, pathlib.Path], tmp_path: pathlib.Path) -> None:
    history, _ = recorded
    records = stored(state_of(history)[1], tmp_path)
    assert {record.kind for record in records} == set(CHANGES)
    for index, record in enumerate(records):
        fields = json.loads(record.payload)
        name, change = CHANGES[record.kind]
        fields[name] = change(fields[name])
        changed = replace(record, payload=json.dumps(fields).encode())
        left = [*records[:index], changed, *records[index + 1 :]]
        assert doctored(left, history, tmp_path / str(index)), f"record {index} is changed: {record}"


def test_each_added_record_is_found(recorded: tuple[History, pathlib.Path], tmp_path: pathlib.Path) -> None:
    """A record that nobody asked for, and each record a second time."""
    history, _ = recorded
    records = stored(state_of(history)[1], tmp_path)
    by_kind = {record.kind: record for record in records if b'"group":"some"' not in record.payload}
    [assigned, committed] = [json.loads(by_kind[f"splits-{what}"].payload) for what in ("assigned", "committed")]
    held = [assigned["splits"][-1]]
    place = records.index(by_kind["splits-assigned"]) + 1
    added: list[tuple[int, str, Any]] = [
        (place, "splits-committed", {**committed, "finished": held}),
        (place, "splits-committed", {**committed, "finished": [], "ordinals": [[*held[0], 1]]}),
        (place, "splits-assigned", {**assigned, "sequence": assigned["sequence"] + 7}),
        (place, "reader-gone", {**json.loads(by_kind["reader-gone"].payload), "cause": "left"}),
        (place, "group-ended", {name: committed[name] for name in ("table", "group")}),
        (place, "reader-joined", {**json.loads(by_kind["reader-joined"].payload), "epoch": 77, "request": "another"}),
        (len(records), "group-deleted", {name: committed[name] for name in ("table", "group")}),
        (len(records), "plan-opened", {**json.loads(by_kind["plan-opened"].payload), "plan": "other"}),
        (len(records), "plan-opened", {**json.loads(by_kind["plan-opened"].payload), "plan": "b", "request_id": "x"}),
        (len(records), "slots-asked", json.loads(by_kind["slots-asked"].payload)),
    ]
    for number, (index, kind, fields) in enumerate(added):
        new = replace(by_kind.get(kind, by_kind["splits-committed"]), kind=kind, payload=json.dumps(fields).encode())
        log = [*records[:index], new, *records[index:]]
        assert doctored(log, history, tmp_path / f"added-{number}"), f"{kind} is added: {fields}"
    for index, record in enumerate(records):
        log = [*records[: index + 1], record, *records[index + 1 :]]
        assert doctored(log, history, tmp_path / f"twice-{index}"), f"record {index} is there twice: {record}"


def test_report_of_an_older_state_is_found(recorded: tuple[History, pathlib.Path], tmp_path: pathlib.Path) -> None:
    """The last report is that of an earlier one, although what changed the group since was answered."""
    history, _ = recorded
    state, directory = state_of(history)
    reports = [call for call in history.calls if call.name == "DescribeGroup" and call.is_ok]
    old = replace(reports[-1], answer=reports[0].answer)
    calls = tuple(old if call is reports[-1] else call for call in history.calls)
    assert reports[0].answer != reports[-1].answer
    assert REPLAYER.differences(directory, replace(history, calls=calls), state)


def compacted(records: list[StoredRecord], count: int) -> list[StoredRecord]:
    """The log whose first records are compacted."""
    state = State()
    for record in records[:count]:
        apply(state, decode_record(record))
    return [*(encode_record(record) for record in compacted_records(state)), *records[count:]]


def test_compacted_log_agrees_with_what_was_said_since(
    recorded: tuple[History, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    history, _ = recorded
    records = stored(state_of(history)[1], tmp_path)
    for count in range(len(records) + 1):
        assert doctored(compacted(records, count), history, tmp_path / str(count)) == [], count


def test_record_that_is_lost_after_a_compaction_is_found(
    recorded: tuple[History, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    """The state is that of the first member's first split, so that what follows is comparable."""
    history, _ = recorded
    records = stored(state_of(history)[1], tmp_path)
    count = 1 + next(place for place, record in enumerate(records) if record.kind == "splits-assigned")
    log = compacted(records, count)
    for index in range(len(log) - len(records) + count, len(log)):
        left = log[:index] + log[index + 1 :]
        assert doctored(left, history, tmp_path / str(index)), f"record {index} is lost: {log[index]}"


def test_state_at_a_kill_is_compared(recorded: tuple[History, pathlib.Path], tmp_path: pathlib.Path) -> None:
    """The copy that was kept agrees; one that lacks its last record does not."""
    history, folder = recorded
    check_kept_states(history, folder)
    [copy] = folder.glob("killed-*")
    shutil.copytree(copy, tmp_path / copy.name)
    store = open_sqlite(tmp_path / copy.name)
    store.rewrite(list(store.records())[:-1])
    store.close()
    with pytest.raises(AssertionError, match=r"the state at a kill, .* disagrees with its server"):
        check_kept_states(history, tmp_path)


def stored(directory: pathlib.Path, folder: pathlib.Path) -> list[StoredRecord]:
    """The records of a directory, by a copy."""
    shutil.copytree(directory, folder / "read")
    store = open_sqlite(folder / "read")
    records = list(store.records())
    store.close()
    return records


def test_state_of_a_killed_server_must_be_kept_before_the_next_one(tmp_path: pathlib.Path) -> None:
    def file(process: int, at_ns: int, *lines: dict[str, Any], ends: bool) -> list[dict[str, Any]]:
        state = {"state": "s", "directory": "/state", "epoch": at_ns}
        all_lines = [{"process": process, "group": process}, state, *lines, *([{"end": True}] if ends else [])]
        return [{"n": n, "t": at_ns + n, **line} for n, line in enumerate(all_lines)]

    answered = {"served": "ListGroups", "request": ""}
    for number, (next_ns, kept_ns, is_missing) in enumerate(
        [(60, 55, False), (60, 0, True), (60, 70, True), (60, 35, True), (0, 0, False)]
    ):
        files = {
            "killed": file(1, 10, answered, ends=False),
            "test": [{"n": 0, "t": 40, "process": 2, "group": 2}],
            **({"next": file(3, next_ns, ends=True)} if next_ns else {}),
        }
        files["test"] += [{"n": 1, "t": 50, "kills": 1, "is_group": False, "signal": 9}, {"n": 2, "t": 51, "end": True}]
        folder = tmp_path / str(number)
        folder.mkdir()
        if kept_ns:
            (folder / f"killed-{kept_ns}").mkdir()
            (folder / f"killed-{kept_ns}" / FROM).write_text("/state")
        history = joined(files)
        with pytest.raises(AssertionError, match="call keep_state") if is_missing else contextlib.nullcontext():
            check_kills(history, folder)


def test_state_that_is_gone_fails_its_test(recorded: tuple[History, pathlib.Path], tmp_path: pathlib.Path) -> None:
    history, _ = recorded
    [state] = history.directories
    with pytest.raises(AssertionError, match="is gone: keep it"):
        check_journals(replace(history, directories={state: str(tmp_path / "gone")}))

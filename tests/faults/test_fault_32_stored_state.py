"""Fault 32, at the server: the state of an earlier release is opened, and the server continues as that release did.

tests/fixtures/releases contains the state and every call that the release answered, before and after its restart.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import pathlib
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow.fs as pafs
import pytest

from penstock.enumerator.coordinator.coordinator import durable_coordinator
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.server.metrics.prometheus import Metrics
from penstock.enumerator.server.run import serve_enumerator
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.store.journal import Journal
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.errors import StateDamaged
from penstock.proto.model.hybrid import KafkaAccess
from penstock.table.storage.filesystem import ArrowStorage
from tests.recorded_calls import TABLES, URI, Json, Wire, read_lines
from tests.scripted_topic import ScriptedTopic

pytestmark = pytest.mark.golden

TESTS = pathlib.Path(__file__).parent.parent
RELEASES = TESTS / "fixtures" / "releases"
VERSIONS = sorted(folder.name for folder in RELEASES.iterdir() if (folder / "state.db").exists())
ACCESS = KafkaAccess(client=(("bootstrap.servers", "scripted"),))


class Replay:
    """Replays the calls of a release at a current server; `differences` are the lines with other answers."""

    def __init__(self, golden: Any, monkeypatch: pytest.MonkeyPatch, state: pathlib.Path) -> None:
        folders = {URI + name: str(golden.table(case)) for name, case in TABLES.items()}
        monkeypatch.setattr(
            "penstock.table.hudi_table.open_storage",
            lambda path: ArrowStorage(path, pafs.LocalFileSystem(), folders[path]),
        )
        self.state = state
        self.topic = ScriptedTopic.of_golden(TESTS / "golden", golden.case(TABLES["orders"]))
        self.now_ms = 1_000
        self.differences: list[str] = []

    @contextlib.contextmanager
    def served(self) -> Iterator[tuple[Wire, EnumeratorService, Metrics]]:
        """The server on the state, as `make.Frozen.served` sets up the release's."""
        store = open_sqlite(str(self.state))
        journal = Journal(store)
        metrics = Metrics(clock_s=lambda: 0.0)
        coordinator = durable_coordinator(
            store,
            journal,
            clock_ms=lambda: self.now_ms,
            settings=CoordinatorSettings(lease_ms=1_000_000_000, plan_ttl_ms=1_000_000_000),
            observer=metrics,
        )
        ids = map(f"plan-{store.epoch}-{{}}".format, itertools.count())
        service = EnumeratorService(
            {name: URI + name for name in TABLES},
            reads=OpenTables(open_topic=self.topic.open, topics={"orders": ACCESS}, wall_ms=lambda: 1_800_000_000_000),
            clock_ms=lambda: self.now_ms,
            new_id=lambda: next(ids),
            cpus=2,
            coordinator=coordinator,
            poll_ms=None,
        )
        with serve_enumerator(service, "127.0.0.1:0", service) as server:
            wire = Wire(server.address)
            yield wire, service, metrics
            wire.close()
        journal.close()
        store.close()

    def run(self, lines: list[Json]) -> None:
        """The lines between two restarts."""
        with self.served() as (wire, service, metrics):
            for number, line in enumerate(lines):
                match line.get("step"):
                    case None:
                        answer = wire.call(line["call"], line["request"])
                        if answer != {**line["answer"], **start_of_earliest(line)}:
                            self.differences.append(f"line {number}: {json.dumps(line)[:3000]}: got {answer}")
                    case "discover":
                        self.now_ms += 5_000
                        service.split_discovery.discover()
                    case "append":
                        self.topic.append(line["partition"], line["key"], line["value"])
                    case "metrics" if line["splits"] != split_events(metrics):
                        self.differences.append(f"metrics: {split_events(metrics)}, were {line['splits']}")


def start_of_earliest(line: Json) -> Json:
    """What the description of a group that starts at EARLIEST says since then: where its first planned round of rows
    ends, until it has committed. The release said it of snapshots only."""
    answer = line["answer"]
    summary = answer.get("summary", {}) if line["call"] == "DescribeGroup" else {}
    is_of_rows = "incremental" in answer.get("scope", {}).get("request", {})
    if summary.get("committed", {}).get("order_key") != "0" or "planned" not in summary or not is_of_rows:
        return {}
    return {"snapshot_at": summary["planned"]} if "rounds" in answer else {}


def split_events(metrics: Metrics) -> list[list[Any]]:
    """The counters of splits, with the kinds of their queries."""
    samples = [sample for family in metrics.registry.collect() for sample in family.samples]
    return sorted(
        [*map(list, sorted(sample.labels.items())), sample.value]
        for sample in samples
        if sample.name == "penstock_split_events_total" and sample.value
    )


def parts(version: str) -> tuple[list[Json], list[Json]]:
    """A release's lines before its restart, and after it."""
    lines = read_lines(RELEASES / version / "calls.jsonl.gz")
    restart = lines.index({"step": "restart"})
    return lines[:restart], lines[restart + 1 :]


def discoveries_ms(lines: list[Json]) -> int:
    """The milliseconds by which the lines advance the clock."""
    return 5_000 * sum(line.get("step") == "discover" for line in lines)


@pytest.fixture
def replay(golden: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Replay:
    """A path for a state directory that does not exist yet."""
    return Replay(golden, monkeypatch, tmp_path / "state")


def opened(replay: Replay, version: str) -> list[Json]:
    """Restores the release's state and returns the lines that follow it."""
    before, after = parts(version)
    replay.state.mkdir()
    shutil.copyfile(RELEASES / version / "state.db", replay.state / "penstock.db")
    replay.now_ms += discoveries_ms(before)
    return after


@pytest.mark.parametrize("version", VERSIONS)
def test_fault_32_state_of_a_release_gives_the_answers_of_that_release(replay: Replay, version: str) -> None:
    after = opened(replay, version)
    replay.run(after)
    assert replay.differences == []


@pytest.mark.parametrize("version", VERSIONS)
def test_fault_32_releases_calls_get_its_answers_from_an_empty_state(replay: Replay, version: str) -> None:
    """Split ids, positions and plans equal those of the release: readers of both versions can share a table."""
    before, after = parts(version)
    replay.run(before)
    replay.run(after)
    assert replay.differences == []


@pytest.mark.parametrize("version", VERSIONS)
def test_fault_32_recording_holds_every_situation(version: str) -> None:
    before, after = parts(version)
    opened_plans = {
        kind
        for line in before
        if line.get("call") == "OpenPlan" and "plan_id" in line["answer"]
        for kind in line["request"]
        if kind.startswith(("snapshot", "read_", "incremental", "changes", "topic_"))
    }
    assert opened_plans == {
        "snapshot", "snapshot_as_of", "read_optimized", "incremental", "changes", "snapshot_part", "topic_ranges",
    }  # fmt: skip
    described = {
        line["answer"]["summary"]["group"]: line["answer"] for line in before if line.get("call") == "DescribeGroup"
    }
    phases = {group: answer.get("kafka", {}).get("phase") for group, answer in described.items()}
    assert {None, "switching", "kafka"} == set(phases.values())
    assert all(int(described[group]["held_splits"]) for group in ("lake", "layout-1", "cdc", "lake-before-topic"))
    done = [one for line in before if line.get("call") == "CommitSplits" for one in line["request"]["done"]]
    assert {one.get("finished", False) for one in done} == {True, False}, "splits are finished, and read in part"
    assert [line["call"] for line in [*before, *after] if "error" in line.get("answer", {})] == ["JoinGroup"]


def mangled(state: pathlib.Path, old: bytes, new: bytes) -> int:
    """Replaces `old` in the records of a state; returns the number of changed records."""
    store = open_sqlite(str(state))
    records = list(store.records())
    changed = [replace(record, payload=record.payload.replace(old, new)) for record in records]
    store.rewrite(changed)
    store.close()
    return sum(before != after for before, after in zip(records, changed, strict=True))


def test_fault_32_mangled_query_kind_in_a_stored_state_is_detected(replay: Replay) -> None:
    """Negative control: metrics identify plans of snapshots by a name in the state."""
    after = opened(replay, VERSIONS[0])
    assert mangled(replay.state, b'"query":"Snapshot"', b'"query":"Snapshoz"') == 1
    replay.run(after)
    assert any(line.startswith("metrics") for line in replay.differences)


def test_fault_32_mangled_phase_in_a_stored_group_is_damage(replay: Replay) -> None:
    """Negative control: the phase of a group that reads its topic is a name in the state, too."""
    after = opened(replay, VERSIONS[0])
    assert mangled(replay.state, b'"phase":"kafka"', b'"phase":"topic"')
    with pytest.raises(StateDamaged, match="phase"):
        replay.run(after)


def test_fault_32_other_split_ids_are_detected(replay: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: another digest changes the ids, but only of splits that are planned from now on."""
    before, _ = parts(VERSIONS[0])
    monkeypatch.setattr("penstock.enumerator.planning.split_ids._SCHEME", "penstock split 2")
    replay.run(before)
    assert any("split_id" in line for line in replay.differences)

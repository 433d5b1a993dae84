"""The specification of the hand-over from table to topic: every state keeps its invariants, each broken variant
violates one, and its traces agree with a hybrid consumer group."""

from __future__ import annotations

import pathlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

import pytest

from penstock.enumerator.core.records import Durable, GroupCreated, RoundPlanned
from penstock.enumerator.core.stored import codec
from penstock.enumerator.groups import split_discovery
from penstock.enumerator.groups.group_tables import FollowedGroup
from penstock.enumerator.handover import phases
from penstock.enumerator.handover.resolve import resolve_hand_over
from penstock.enumerator.handover.topic_position import initial_place, validated_place
from penstock.proto.model.hybrid import KafkaPlace
from penstock.proto.model.positions import InstantTime, Position
from tests.spec.hand_over_replay import COMMITS, TOP, replay
from tests.spec.hand_over_table import completion_of
from tests.spec.spin import SPEC, noted, random_run, search
from tests.spec.traces import BadTrace, Disagreement

pytestmark = pytest.mark.ops
FILE: Final = "hand_over.pml"
COUNTS: Final = {"safety": (387_209, 1_390_921), "liveness": (317_355, 23_874_302)}
"""States and transitions: every clone counts the same."""
TRACES: Final = (f"TOP={TOP}", f"COMMITS={COMMITS}", "MOST_FAULTS=8")
SEEDS: Final = range(1, 61)
BROKEN: Final = {
    "ANSWERS_BEFORE_SYNC": "one_direction",
    "HAND_OVER_BEFORE_THE_LAST_SPLIT": "exactly_once",
    "JUMPS_OVER_LOST_RECORDS": "exactly_once",
    "NO_ROUND_WITHOUT_RECORDS": "liveness",
    "OFFSETS_NOT_STORED": "same_offsets",
    "OFFSETS_OF_THE_NEWEST_COMMIT": "exactly_once",
    "ONE_RECORD_LATE": "exactly_once",
    "PHASE_NOT_STORED": "one_direction",
}
"""Each broken variant, and the invariant that it violates."""
SEEDS_OF_BROKEN: Final = {"OFFSETS_NOT_STORED": range(121, 185)}
"""Of variants whose traces differ from the core's only if the service restarts between the hand-over and its first
round, after a later commit: few runs do."""


def hand_over_run(seed: int, *defines: str) -> str:
    """A random run with many faults, 1 to 5 steps apart, of a topic with or without retention."""
    return random_run(FILE, seed, [*TRACES, f"RETENTION={seed % 2}", f"PACE={1 + seed // 2 % 5}", *defines])


@pytest.fixture(scope="module")
def traces() -> list[str]:
    return [hand_over_run(seed) for seed in SEEDS]


def disagreement(runs: Iterable[str], folder: pathlib.Path) -> str:
    """The first disagreement. AssertionError if all runs agree."""
    for number, text in enumerate(runs):
        try:
            replay(text, folder / str(number))
        except Disagreement as difference:
            return str(difference)
        except BadTrace:
            continue  # a run of a broken specification may have no end
    raise AssertionError("the specification and the core agree on every answer")


# --- the specification


def test_every_state_keeps_the_invariants(tmp_path: pathlib.Path) -> None:
    result = search(FILE, tmp_path)
    assert (result.violated, result.states, result.transitions) == ("", *COUNTS["safety"])


def test_every_fair_run_reaches_the_end_of_the_topic_or_stops(tmp_path: pathlib.Path) -> None:
    result = search(FILE, tmp_path, ["MOST_FAULTS=1"], is_liveness=True)
    assert (result.violated, result.states, result.transitions) == ("", *COUNTS["liveness"])


def test_page_has_the_counts() -> None:
    text = (SPEC / "README.md").read_text()
    for states, transitions in COUNTS.values():
        assert f"| {states:,} | {transitions:,} |" in text


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
def test_every_fair_run_with_two_faults_reaches_the_end_of_the_topic_or_stops(tmp_path: pathlib.Path) -> None:
    result = search(FILE, tmp_path, is_liveness=True, fast="2")
    assert result.violated == "", result.text
    noted(f"{FILE}, liveness, two faults", result)


@pytest.mark.parametrize("variant", BROKEN)
def test_each_broken_variant_violates_its_invariant(variant: str, tmp_path: pathlib.Path) -> None:
    defines, is_liveness = [f"BROKEN_{variant}"], BROKEN[variant] == "liveness"
    if is_liveness:
        defines += ["MOST_FAULTS=1", "UNCHECKED"]
    assert search(FILE, tmp_path, defines, is_liveness=is_liveness, fast="0").violated == BROKEN[variant]


def test_each_variant_and_each_invariant_of_the_file_has_its_control() -> None:
    text = (SPEC / FILE).read_text()
    assert set(re.findall(r"\bBROKEN_(\w+)", text)) == set(BROKEN)
    invariants = set(re.findall(r"\bcheck\((\w+), ", text)) - {"invariant"}
    assert invariants | {"liveness"} == set(BROKEN.values())


# --- its traces, and the core


def test_core_agrees_with_every_trace(traces: list[str], tmp_path: pathlib.Path) -> None:
    counts: Counter[str] = Counter()
    for number, text in enumerate(traces):
        counts += replay(text, tmp_path / str(number))
    rounds = {"commit", "late commit", "lake", "resolve", "hand over", "topic", "nothing", "synced"}
    assert rounds | {"ask", "finish", "restart", "rejoin", "expired", "stopped"} <= set(counts), counts


@pytest.mark.parametrize("variant", BROKEN)
def test_broken_variant_disagrees_with_the_core(variant: str, tmp_path: pathlib.Path) -> None:
    seeds = SEEDS_OF_BROKEN.get(variant, SEEDS)
    assert disagreement((hand_over_run(seed, f"BROKEN_{variant}", "UNCHECKED") for seed in seeds), tmp_path)


def followed_as_drained(*args: Any) -> FollowedGroup:
    group = FOLLOWED(*args)
    return replace(group, following=replace(group.following, drained=True))


def resolved_at_the_newest_commit(table: Any, at: Position, hybrid: Any, metadata: Any) -> Any:
    return resolve_hand_over(table, Position(InstantTime(completion_of(COMMITS))), hybrid, metadata)


def place_one_record_late(*args: Any) -> KafkaPlace:
    place = initial_place(*args)
    return replace(
        place,
        starts=tuple((partition, offset + 1) for partition, offset in place.starts),
        places=tuple(replace(item, next=item.next + 1) for item in place.places),
    )


def place_after_lost_records(place: KafkaPlace, description: Any, **_: bool) -> Any:
    return validated_place(place, description, fail_on_data_loss=False)


FOLLOWED: Final = split_discovery.followed
VERSION_OF: Final = codec._version
BROKEN_CORES: Final[dict[str, tuple[object, str, Any]]] = {
    "hand-over before the last split": (split_discovery, "followed", followed_as_drained),
    "jumps over lost records": (phases, "validated_place", place_after_lost_records),
    "offsets of the newest commit": (phases, "resolve_hand_over", resolved_at_the_newest_commit),
    "one record late": (phases, "initial_place", place_one_record_late),
}


@pytest.mark.parametrize("defect", BROKEN_CORES)
def test_broken_core_disagrees_with_a_trace(defect: str, traces: list[str], tmp_path: pathlib.Path) -> None:
    target, name, function = BROKEN_CORES[defect]
    with patch.object(target, name, function):
        assert disagreement(traces, tmp_path)


# --- traces that do not fit


@pytest.fixture
def whole(traces: list[str]) -> list[str]:
    """The lines of a trace that reaches the topic."""
    return next(text for text in traces if '"step": "topic"' in text and '"step": "finish"' in text).splitlines()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-1], "no end"),
        (lambda lines: lines[1:], "first line"),
        (lambda lines: [lines[0].replace('"version": 2', '"version": 1'), *lines[1:]], "version"),
        (lambda lines: [lines[0].replace('"top": 5', '"top": 6'), *lines[1:]], "top"),
        (lambda lines: [*lines[:-1], '{"step": "steal"}', lines[-1]], "no step 'steal'"),
        (lambda lines: [*lines[:1], '{"step": "finish", "partition": 0}', *lines[1:]], "no first"),
        (lambda lines: [*lines[:1], '{"step": "hand over"}', *lines[1:]], "without offsets"),
    ],
)
def test_trace_that_does_not_fit_is_an_error(
    change: Any, message: str, whole: list[str], tmp_path: pathlib.Path
) -> None:
    with pytest.raises(BadTrace, match=message):
        replay("\n".join(change(whole)), tmp_path / "t")


@pytest.mark.parametrize("records", [GroupCreated, RoundPlanned])
def test_trace_does_not_fit_another_format_of_stored_records(
    records: type[Durable], whole: list[str], tmp_path: pathlib.Path
) -> None:
    """If the core writes these records in a newer version."""
    newer = patch.object(codec, "_version", lambda each: 4 if isinstance(each, records) else VERSION_OF(each))
    with newer, pytest.raises(BadTrace, match=r"version.* \[?4"):
        replay("\n".join(whole), tmp_path / "t")


@pytest.mark.parametrize(
    "name", ["phase", "lake", "starts", "next", "open", "from", "upto", "stopped", "splits", "end"]
)
def test_changed_value_of_a_trace_is_a_disagreement(name: str, traces: list[str], tmp_path: pathlib.Path) -> None:
    """In the last step that has the value, of the first trace that finishes a range of the topic."""
    lines = next(text for text in traces if re.search(r'"finish".*"phase": 2', text)).splitlines()
    at = max(number for number, line in enumerate(lines[:-1]) if f'"{name}": ' in line)
    pattern, other = (r"\[\d, \d\]", "[9, 9]") if re.search(rf'"{name}": \[', lines[at]) else (r"\d", "9")
    lines[at] = re.sub(rf'"{name}": {pattern}', f'"{name}": {other}', lines[at])
    with pytest.raises(Disagreement):
        replay("\n".join(lines), tmp_path / "t")

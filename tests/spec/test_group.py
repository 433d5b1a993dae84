"""The specification of the group protocol: every state keeps its invariants, each broken variant violates one, and its
traces agree with the core."""

from __future__ import annotations

import pathlib
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from penstock.enumerator.core import members, split_assignment
from penstock.enumerator.core import state as core_state
from penstock.enumerator.core.records import Durable, GroupCreated, RoundPlanned
from penstock.enumerator.core.rounds import Round
from penstock.enumerator.core.stored import codec
from tests.simulation.broken_functions import (
    any_epoch,
    choose_any,
    gives_back_from_the_start,
    keeps_undelivered,
    pending_or_held,
)
from tests.spec.group_replay import ROWS, SCOPE, ReplayServer, replay
from tests.spec.spin import SPEC, noted, random_run, search
from tests.spec.traces import BadTrace, Disagreement
from tests.state_space import broken_searches

pytestmark = pytest.mark.ops
FILE = "group.pml"
COUNTS = {"safety": (429_199, 1_309_237), "copies": (163_606, 670_261), "liveness": (504_997, 15_919_564)}
"""States and transitions: every clone counts the same."""
COPY_AND_RESTART = f"KINDS={1 << 1 | 1 << 3}"
TRACES = ("MOST_FAULTS=8", "EACH_FAULT=0", f"ROWS={ROWS}")
SEEDS = range(1, 61)
COPIED = range(1, 61)
"""Seeds of runs with copies and restarts only, in which copies arrive late."""
BROKEN = {
    "ANSWERS_BEFORE_SYNC": "durable",
    "EMPTY_ANSWER_FORGOTTEN": "order",
    "EPOCH_GIVEN_AGAIN": "number",
    "EPOCH_UNCHECKED": "fencing",
    "HELD_ASSIGNED_AGAIN": "ownership",
    "HELD_NEVER_DELIVERED": "liveness",
    "MISSED_NOT_DELIVERED": "order",
    "NO_ORDER": "order",
    "ORDINAL_LOST": "exactly_once",
    "POSITION_BEFORE_THE_LAST_SPLIT": "position",
    "REPEATED_COMMIT_UNKNOWN": "answers",
    "RESET_FENCES_NOBODY": "fencing",
    "STALE_DISCOVERY_ACCEPTED": "position",
}
"""Each broken variant, and the invariant that it violates."""
DISAGREES = (
    "EPOCH_GIVEN_AGAIN",
    "EPOCH_UNCHECKED",
    "HELD_ASSIGNED_AGAIN",
    "NO_ORDER",
    "ORDINAL_LOST",
    "POSITION_BEFORE_THE_LAST_SPLIT",
    "REPEATED_COMMIT_UNKNOWN",
    "RESET_FENCES_NOBODY",
    "STALE_DISCOVERY_ACCEPTED",
)
"""Variants whose answers differ from the core's within few traces."""
BROKEN_CORES: dict[str, tuple[tuple[object, str, Any], ...]] = {
    "epoch unchecked": ((members, "member_of", any_epoch), (split_assignment, "member_of", any_epoch)),
    "file groups in no order": ((split_assignment, "choose", choose_any),),
    "held split assigned again": ((Round, "pending_in_order", pending_or_held),),
    "ordinal lost with its reader": ((Round, "give_back", gives_back_from_the_start),),
    "split never delivered": ((core_state, "_assign", keeps_undelivered),),
}
VERSION_OF = codec._version
BROKEN_SERVERS = ("AcceptsStaleDiscovery", "GivesEpochsAgain")


def group_run(seed: int, *defines: str) -> str:
    """A random run with many faults, 1 to 5 calls apart."""
    return random_run(FILE, seed, [*TRACES, f"PACE={1 + seed % 5}", *defines])


@contextmanager
def patched(patches: tuple[tuple[object, str, Any], ...]) -> Iterator[None]:
    with ExitStack() as stack:
        for target, name, value in patches:
            stack.enter_context(patch.object(target, name, value))
        yield


@pytest.fixture(scope="module")
def traces() -> list[str]:
    return [group_run(seed) for seed in SEEDS]


def disagreement(runs: Iterator[str], server: type[ReplayServer] = ReplayServer) -> str:
    """The first disagreement. AssertionError if all runs agree."""
    for text in runs:
        try:
            replay(text, server(SCOPE))
        except Disagreement as difference:
            return str(difference)
        except BadTrace:
            continue  # a run of a broken specification may have no end
    raise AssertionError("the specification and the core agree on every answer")


# --- the specification


def test_every_state_keeps_the_invariants(tmp_path: pathlib.Path) -> None:
    result = search(FILE, tmp_path)
    assert (result.violated, result.states, result.transitions) == ("", *COUNTS["safety"])


def test_every_fair_run_reaches_the_end(tmp_path: pathlib.Path) -> None:
    result = search(FILE, tmp_path, ["SMALL"], is_liveness=True)
    assert (result.violated, result.states, result.transitions) == ("", *COUNTS["liveness"])


def test_every_state_with_a_copy_and_a_restart_keeps_the_invariants(tmp_path: pathlib.Path) -> None:
    result = search(FILE, tmp_path, ["MOST_FAULTS=2", COPY_AND_RESTART])
    assert (result.violated, result.states, result.transitions) == ("", *COUNTS["copies"])


def test_page_has_the_counts() -> None:
    text = (SPEC / "README.md").read_text()
    for states, transitions in COUNTS.values():
        assert f"| {states:,} | {transitions:,} |" in text


@pytest.mark.parametrize("variant", BROKEN)
def test_each_broken_variant_violates_its_invariant(variant: str, tmp_path: pathlib.Path) -> None:
    defines, is_liveness = [f"BROKEN_{variant}"], BROKEN[variant] == "liveness"
    if variant == "MISSED_NOT_DELIVERED":  # needs a call that arrives twice, and a restart
        defines += ["MOST_FAULTS=2", COPY_AND_RESTART]
    if variant == "EPOCH_UNCHECKED":  # needs a call that arrives twice, and a reader that is killed
        defines += ["MOST_FAULTS=2", f"KINDS={1 << 3 | 1 << 6}"]
    if is_liveness:
        defines += ["SMALL", "UNCHECKED"]
    assert search(FILE, tmp_path, defines, is_liveness=is_liveness, fast="0").violated == BROKEN[variant]


def test_each_variant_and_each_invariant_of_the_file_has_its_control() -> None:
    text = (SPEC / FILE).read_text()
    assert set(re.findall(r"\bBROKEN_(\w+)", text)) == set(BROKEN)
    invariants = set(re.findall(r"\bcheck\((\w+), ", text)) - {"invariant"}
    assert invariants | {"liveness"} == set(BROKEN.values())


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
def test_every_state_with_two_faults(tmp_path: pathlib.Path) -> None:
    result = search(FILE, tmp_path, ["MOST_FAULTS=2"], fast="2")
    assert result.violated == "", result.text
    noted(f"{FILE}, two faults", result)


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
def test_every_fair_run_of_the_larger_table_reaches_the_end(tmp_path: pathlib.Path) -> None:
    result = search(FILE, tmp_path, is_liveness=True, fast="2")
    assert result.violated == "", result.text
    noted(f"{FILE}, liveness, larger table", result)


# --- its traces, and the core


def test_core_agrees_with_every_trace(traces: list[str]) -> None:
    counts: Counter[str] = Counter()
    for text in traces:
        counts += replay(text)
    faults = {"expired", "restart", "reset", "leave", "beat"}
    calls = {"join", "ask", "part", "finish", "commit", "discovered", "synced"}
    answers = {"joined", "splits", "nothing", "end", "committed", "fenced", "alive", "gone"}
    assert faults | calls | {f"answer {answer}" for answer in answers} <= set(counts), counts


def copied_run(seed: int) -> str:
    return random_run(FILE, seed, [*TRACES, COPY_AND_RESTART, "LATE_COPIES"])


def test_core_agrees_with_copies_of_earlier_requests() -> None:
    counts: Counter[str] = Counter()
    for seed in COPIED:
        counts += replay(copied_run(seed))
    assert counts["earlier copy splits"] >= 4, counts


def test_server_that_ignores_what_was_received_disagrees_with_a_trace() -> None:
    class Changed(broken_searches.IgnoresWhatWasReceived, ReplayServer):
        pass

    assert disagreement(map(copied_run, COPIED), Changed)


@pytest.mark.parametrize("defect", BROKEN_CORES)
def test_broken_core_disagrees_with_a_trace(defect: str, traces: list[str]) -> None:
    with patched(BROKEN_CORES[defect]):
        assert disagreement(iter(traces))


@pytest.mark.parametrize("name", BROKEN_SERVERS)
def test_broken_server_disagrees_with_a_trace(name: str, traces: list[str]) -> None:
    class Changed(getattr(broken_searches, name), ReplayServer):  # type: ignore[misc]
        pass

    assert disagreement(iter(traces), Changed)


@pytest.mark.parametrize("variant", DISAGREES)
def test_broken_variant_disagrees_with_the_core(variant: str) -> None:
    assert disagreement(group_run(seed, f"BROKEN_{variant}", "UNCHECKED") for seed in SEEDS)


# --- traces that do not fit


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-1], "no end"),
        (lambda lines: lines[: len(lines) // 2], "no end"),
        (lambda lines: [*lines[:-1], lines[-1][:5]], "cut off or no JSON"),
        (lambda lines: [], "first line"),
        (lambda lines: lines[1:], "first line"),
        (lambda lines: [lines[0].replace('"version": 1', '"version": 2'), *lines[1:]], "version"),
        (lambda lines: [lines[0].replace('"max_splits": 2', '"max_splits": 3'), *lines[1:]], "max_splits"),
        (lambda lines: [lines[0].replace('"group"', '"plan"'), *lines[1:]], "plan"),
        (lambda lines: [*lines[:-1], '{"step": "steal", "reader": 1}', lines[-1]], "no step 'steal'"),
        (lambda lines: [*lines[:-1], '{"step": "expired"}', lines[-1]], "no reader"),
        (lambda lines: [*lines[:3], lines[-1], *lines[3:]], "is no step"),
        (lambda lines: [*lines[:-1], '["join"]', lines[-1]], "expected an object"),
    ],
)
def test_trace_that_does_not_fit_is_an_error(change: Any, message: str, traces: list[str]) -> None:
    with pytest.raises(BadTrace, match=message):
        replay("\n".join(change(traces[0].splitlines())))


@pytest.mark.parametrize("records", [GroupCreated, RoundPlanned])
def test_trace_does_not_fit_another_format_of_stored_records(records: type[Durable], traces: list[str]) -> None:
    """If the core writes these records in a newer version."""
    newer = patch.object(codec, "_version", lambda each: 4 if isinstance(each, records) else VERSION_OF(each))
    with newer, pytest.raises(BadTrace, match=r"version.* \[?4"):
        replay(traces[0])


@pytest.mark.parametrize("name", ["answer", "position", "planned", "got", "status"])
def test_changed_value_of_a_trace_is_a_disagreement(name: str, traces: list[str]) -> None:
    lines = next(text for text in traces if '"answer": "splits"' in text).splitlines()
    at = next(number for number, line in enumerate(lines) if '"answer": "splits"' in line)
    changed = {
        "answer": lines[at].replace('"splits"', '"nothing"'),
        "position": re.sub(r'"position": \d', '"position": 2', lines[at]),
        "planned": re.sub(r'"planned": \d', '"planned": 0', lines[at]),
        "got": re.sub(r'"got": \d', '"got": 7', lines[at]),
        "status": re.sub(r'"status": \[\d, \d, \d\]', '"status": [1, 1, 1]', lines[at]),
    }
    lines[at] = changed[name]
    with pytest.raises(Disagreement):
        replay("\n".join(lines))

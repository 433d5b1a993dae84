"""10^4 mutated inputs that hypothesis draws, for all parsers of Penstock: each has a result or a named error.

No crash, no hang (each batch is a separate process), memory bounded by RLIMIT_AS: `run_batch`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.fuzz import targets
from tests.fuzz.batches import Outcome, run_batch
from tests.fuzz.corpus import KINDS, members

INPUTS = 10_000
"""Of all kinds together."""
SAMPLE = ("log", "requested_replace", "hfile", "lance", "properties")
"""Each kind has a process of its own, which costs more than its inputs."""
OTHERS = tuple(kind for kind in KINDS if kind not in SAMPLE)


@pytest.mark.parametrize(
    "kinds", [SAMPLE, pytest.param(OTHERS, marks=pytest.mark.exhaustive)], ids=["sample", "others"]
)
def test_mutated_inputs_give_an_answer_or_a_named_error(kinds: tuple[str, ...]) -> None:
    each = -(-INPUTS // len(KINDS))
    inputs = each * len(kinds)
    whole = Outcome()
    with ThreadPoolExecutor(2) as pool:
        for outcome in pool.map(lambda kind: run_batch(kind, 0, each, "hypothesis"), kinds):
            whole.add(outcome)
    assert not whole.problems, "\n\n".join(whole.problems[:5])
    assert whole.inputs >= inputs * 0.9, f"{whole.outcomes}: inputs are missing"
    assert whole.outcomes["answer"] > inputs // 50, f"{whole.outcomes}: nothing got past the framing"


@pytest.mark.parametrize("kind", ["lance", "orc", "parquet"])
def test_base_files_are_accepted_before_they_are_mutated(kind: str) -> None:
    """Otherwise their mutations would be refused for the same reason."""
    assert {targets.run(member, member.data) for member in members()[kind]} == {"answer"}


@pytest.mark.parametrize(("first", "inputs"), [(0, 30), pytest.param(30, 120, marks=pytest.mark.exhaustive)])
def test_table_with_a_mutated_file_gives_an_answer_or_a_named_error(first: int, inputs: int) -> None:
    outcome = run_batch("table", first, inputs)
    assert not outcome.problems, "\n\n".join(outcome.problems[:5])
    assert outcome.inputs == inputs


@pytest.mark.parametrize(("first", "inputs"), [(8, 4), pytest.param(12, 4, marks=pytest.mark.exhaustive)])
def test_table_with_a_mutated_lance_file_gives_an_answer_or_a_named_error(first: int, inputs: int) -> None:
    """The library of Lance decodes each in a child process, which many of them end."""
    outcome = run_batch("lance_table", first, inputs)
    assert not outcome.problems, "\n\n".join(outcome.problems)
    assert outcome.inputs == inputs
    assert outcome.outcomes["LIBRARY"] and outcome.outcomes["answer"], f"{outcome.outcomes}"
    assert not outcome.outcomes["CONFIGURATION"], "the library did not start"

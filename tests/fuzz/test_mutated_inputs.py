"""10^4 mutated inputs that hypothesis draws, for all parsers of Penstock: each has a result or a named error.

No crash, no hang (each batch is a separate process), memory bounded by RLIMIT_AS: `run_batch`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.fuzz.batches import Outcome, run_batch
from tests.fuzz.corpus import members

INPUTS = 10_000
"""Of all kinds together."""
KINDS = list(members())
SAMPLE = KINDS[::4]
"""Each kind has a process of its own, which costs more than its inputs."""


@pytest.mark.parametrize("kinds", [SAMPLE, pytest.param(KINDS, marks=pytest.mark.exhaustive)], ids=["sample", "all"])
def test_mutated_inputs_give_an_answer_or_a_named_error(kinds: list[str]) -> None:
    each = -(-INPUTS // len(KINDS))
    inputs = each * len(kinds)
    whole = Outcome()
    with ThreadPoolExecutor(2) as pool:
        for outcome in pool.map(lambda kind: run_batch(kind, 0, each, "hypothesis"), kinds):
            whole.add(outcome)
    assert not whole.problems, "\n\n".join(whole.problems[:5])
    assert whole.inputs >= inputs * 0.9, f"{whole.outcomes}: inputs are missing"
    assert whole.outcomes["answer"] > inputs // 50, f"{whole.outcomes}: nothing got past the framing"


@pytest.mark.parametrize("inputs", [30, pytest.param(150, marks=pytest.mark.exhaustive)])
def test_table_with_a_mutated_file_gives_an_answer_or_a_named_error(inputs: int) -> None:
    outcome = run_batch("table", 0, inputs)
    assert not outcome.problems, "\n\n".join(outcome.problems[:5])
    assert outcome.inputs == inputs

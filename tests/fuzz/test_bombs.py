"""Small inputs that would decode to much are decoded or refused, in a process with little memory."""

from __future__ import annotations

from tests.fuzz.batches import run_batch
from tests.fuzz.bombs import BOMBS


def test_small_input_takes_little_memory_whatever_it_would_decode_to() -> None:
    outcome = run_batch("bombs", 0, len(BOMBS))
    assert not outcome.problems, "\n\n".join(outcome.problems)
    assert outcome.inputs == len(BOMBS)

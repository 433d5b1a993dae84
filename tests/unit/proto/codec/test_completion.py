"""Completion times as messages."""

from __future__ import annotations

import random

import pytest

from penstock.proto.codec.splits import completion_from_message, completion_to_message
from penstock.proto.errors import ConfigurationError
from penstock.proto.model import positions
from penstock.proto.model.positions import CompletionTimes
from penstock.proto.v1 import penstock_pb2 as pb


def history(instants: int) -> CompletionTimes:
    """Commits about a minute apart; some complete before an earlier one does."""
    chosen = random.Random(3)
    numbers = sorted({20260101000000000 + chosen.randrange(10**9) for _ in range(instants)})
    return CompletionTimes(
        tuple(numbers), tuple(1767225600000 + 60_000 * n + chosen.randrange(300_000) for n, _ in enumerate(numbers))
    )


@pytest.mark.parametrize("times", [CompletionTimes(), CompletionTimes((1,), (-5,)), history(500)])
def test_decoded_times_equal_the_encoded_ones(times: CompletionTimes) -> None:
    data = completion_to_message(times).SerializeToString(deterministic=True)
    assert completion_from_message("scan", pb.CompletionTimes.FromString(data)) == times


def test_instant_takes_few_bytes() -> None:
    """Each slot of a plan in Spark holds the scan."""
    assert completion_to_message(history(10_000)).ByteSize() < 10 * 10_000


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (pb.CompletionTimes(instants=[1, 2], completed_ms=[1]), "got 1 times, expected 2, one each"),
        (pb.CompletionTimes(instants=[1, 0], completed_ms=[1, 1]), "do not ascend"),
        (pb.CompletionTimes(instants=[2**64 - 1], completed_ms=[1]), "too long"),
        (pb.CompletionTimes(instants=[1], completed_ms=[2**60]), "beyond the calendar"),
        (pb.CompletionTimes(instants=[1], completed_ms=[-(2**60)]), "beyond the calendar"),
    ],
)
def test_hostile_messages_are_refused(message: pb.CompletionTimes, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        completion_from_message("scan", message)


def test_number_of_instants_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    message = completion_to_message(history(20))
    monkeypatch.setattr("penstock.proto.codec.splits.MAX_COMPLETIONS", 10)
    assert positions.MAX_COMPLETIONS == 1_000_000
    with pytest.raises(ConfigurationError, match="at most 10"):
        completion_from_message("scan", message)

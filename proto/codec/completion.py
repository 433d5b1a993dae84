"""Encodes and decodes `CompletionTimes`: each number as the difference to the one before, which takes few bytes."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Final

from penstock.proto.codec import checks as check
from penstock.proto.model.positions import MAX_COMPLETIONS, CompletionTimes
from penstock.proto.v1 import penstock_pb2 as pb

_MAX_INSTANT: Final = 10**17 - 1
_MAX_MS: Final = 2**53


def completion_to_message(times: CompletionTimes) -> pb.CompletionTimes:
    """Encodes completion times."""
    return pb.CompletionTimes(
        instants=[later - before for before, later in pairwise((0, *times.instants))],
        completed_ms=[later - before for before, later in pairwise((0, *times.completed_ms))],
    )


def completion_from_message(what: str, message: pb.CompletionTimes) -> CompletionTimes:
    """Decodes completion times. ConfigurationError that names `what` unless the instants ascend and each has a time."""
    field = "completion_times"
    check.counted(what, field, message.instants, MAX_COMPLETIONS)
    if len(message.instants) != len(message.completed_ms):
        raise check.breach(what, field, f"{len(message.completed_ms)} times", f"{len(message.instants)}, one each")
    instants, completed_ms = tuple(accumulate(message.instants)), tuple(accumulate(message.completed_ms))
    if not all(message.instants) or (instants and instants[-1] > _MAX_INSTANT):
        raise check.breach(what, field, "instants that do not ascend, or are too long", "ascending, up to 17 digits")
    if completed_ms and not (min(completed_ms) >= -_MAX_MS and max(completed_ms) <= _MAX_MS):
        raise check.breach(what, field, "a time beyond the calendar", f"milliseconds within {_MAX_MS} of 1970")
    return CompletionTimes(instants, completed_ms)

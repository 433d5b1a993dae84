"""Judges inputs from grammars, and counts the outcomes of each decoder."""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import Any

from penstock.proto.errors import PenstockError
from tests.fuzz import grammar_files, grammar_logs, grammar_values
from tests.fuzz.grammar import Case, Decoder, case_of

_GRAMMARS = (grammar_logs, grammar_files, grammar_values)
DECODERS: dict[str, Decoder] = {decoder.name: decoder for grammar in _GRAMMARS for decoder in grammar.DECODERS}

LEAST_WHOLE = 0.3
LEAST_REFUSED = 0.05
"""Minimum shares of a decoder's inputs; below them the grammar does not match the decoder."""


class WrongAnswerError(AssertionError):
    """A valid input was refused, or its result differs from the grammar's."""


def outcome_of(decoder: Decoder, data: bytes, context: Any) -> tuple[str, Any]:
    """('answer', the meaning), or (the error's code, its text). Does not catch other exceptions."""
    try:
        return "answer", decoder.decode(data, context)
    except PenstockError as error:
        if "MemoryError" in str(error):
            raise
        return error.code, str(error)


def judge(decoder: Decoder, case: Case, whole: bool) -> str:
    """'whole' for valid bytes with the grammar's meaning; for damaged bytes 'answer' or the error's code."""
    outcome, meaning = outcome_of(decoder, case.data, case.context)
    if not whole:
        return outcome
    if outcome != "answer" or meaning != case.meaning:
        raise WrongAnswerError(f"{outcome}: got {str(meaning)[:600]}, expected {str(case.meaning)[:600]}")
    return "whole"


def judge_seed(decoder: Decoder, seed: int) -> str:
    """The verdict on the input of a seed."""
    case, whole = case_of(decoder, seed)
    return judge(decoder, case, whole)


@dataclass(frozen=True)
class Coverage:
    """The outcomes of a decoder's inputs."""

    name: str
    inputs: int
    whole: int
    damaged_answered: int

    def __str__(self) -> str:
        refused = self.inputs - self.whole - self.damaged_answered
        return (
            f"{self.name}: {self.inputs} inputs, {self.whole} whole and as written, {self.damaged_answered} damaged "
            f"with an answer, {refused} refused"
        )

    @property
    def problem(self) -> str:
        """The reason why the inputs do not cover the decoder; empty: they do."""
        refused = self.inputs - self.whole - self.damaged_answered
        if self.whole < LEAST_WHOLE * self.inputs or not self.inputs:
            return f"{self}: expected {LEAST_WHOLE:.0%} whole ones"
        if refused < LEAST_REFUSED * self.inputs:
            return f"{self}: expected {LEAST_REFUSED:.0%} refused ones"
        return ""


def coverage(outcomes: collections.Counter[str]) -> list[Coverage]:
    """By decoder, from the outcomes of a batch."""
    by_decoder: dict[str, collections.Counter[str]] = {name: collections.Counter() for name in DECODERS}
    for outcome, count in outcomes.items():
        name, _, verdict = outcome.rpartition(": ")
        if name:
            by_decoder[name][verdict] += count
    return [Coverage(name, own.total(), own["whole"], own["answer"]) for name, own in by_decoder.items()]

"""Inputs from grammars for every decoder: valid ones have the written meaning; damaged ones are refused, or decoded
equally by all implementations, within little memory."""

from __future__ import annotations

import collections
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.proto.errors import CorruptBlock
from tests.fuzz.batches import Outcome, run_batch
from tests.fuzz.grammar import Case, Decoder, Wire, case_of
from tests.fuzz.stored_inputs import stored_inputs
from tests.fuzz.structured import DECODERS, WrongAnswerError, coverage, judge, judge_seed

INPUTS = 6_000
NUMBER = next(iter(DECODERS))


@pytest.mark.exhaustive
def test_inputs_of_grammars_have_the_written_meaning_or_are_refused() -> None:
    whole = Outcome()
    with ThreadPoolExecutor(2) as pool:
        for outcome in pool.map(lambda first: run_batch("grammar", first, INPUTS // 2), (0, INPUTS)):
            whole.add(outcome)
    assert not whole.problems, "\n\n".join(whole.problems[:5])
    lost = [decoder.problem for decoder in coverage(whole.outcomes) if decoder.problem]
    assert not lost, "\n".join(lost)


def test_stored_inputs_have_their_stored_outcome() -> None:
    remaining = stored_inputs()
    assert {name for name, *_ in remaining} == DECODERS.keys(), (
        "each decoder has inputs: python -m tests.fuzz.stored_inputs 2000"
    )
    outcome = run_batch("stored", 0, len(remaining))
    assert not outcome.problems, "\n\n".join(outcome.problems[:5])
    assert outcome.inputs == len(remaining)


def test_input_of_a_seed_is_always_the_same() -> None:
    for decoder in DECODERS.values():
        assert all(case_of(decoder, seed) == case_of(decoder, seed) for seed in range(5))


def test_damage_changes_the_input_for_most_seeds() -> None:
    for decoder in DECODERS.values():
        first = [decoder.grammar(wire) for wire in (whole_wire(decoder), whole_wire(decoder))]
        assert first[0] == first[1]
        damaged = [case_of(decoder, seed) for seed in range(40)]
        assert 5 < sum(whole for _, whole in damaged) < 35


def whole_wire(decoder: Decoder) -> Wire:
    return Wire(f"{decoder.name} same")


def test_decoder_with_another_result_is_wrong() -> None:
    case = Case(b"x", None, [1])
    for decode in (lambda _data, _context: [2], _refuse):
        with pytest.raises(WrongAnswerError):
            judge(Decoder("wrong", lambda _wire: case, decode), case, whole=True)
    assert judge(Decoder("right", lambda _wire: case, lambda _data, _context: [1]), case, whole=True) == "whole"
    assert judge(Decoder("wrong", lambda _wire: case, _refuse), case, whole=False) == "CORRUPT_BLOCK"


def _refuse(_data: bytes, _context: object) -> object:
    raise CorruptBlock("refused")


def test_decoder_that_refuses_or_accepts_everything_is_reported() -> None:
    def problem(**outcomes: int) -> str:
        counted = collections.Counter({f"{NUMBER}: {verdict}": count for verdict, count in outcomes.items()})
        return next(result.problem for result in coverage(counted) if result.name == NUMBER)

    assert problem(whole=40, answer=20, CORRUPT_BLOCK=40) == ""
    assert "whole" in problem(whole=20, answer=40, CORRUPT_BLOCK=40)
    assert "refused" in problem(whole=40, answer=60)
    assert "0 inputs" in problem()


@pytest.mark.parametrize("turn", [19995602175980, 19995602175084])
def test_histories_that_ended_the_process_are_refused(turn: int) -> None:
    """Indices beyond a dictionary, and a footer that pyarrow cannot write again; from a run of `make long`."""
    assert judge_seed(DECODERS["history of layout 2"], turn) == "CORRUPT_FILE"

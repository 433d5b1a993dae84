"""The memory of answers: one limit for each answer, and one for all of them together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from penstock.engine.flight import answers
from penstock.engine.flight.answers import AnswerMemory
from penstock.proto.errors import ConfigurationError, Overloaded
from tests.unit.engine.flight.served import Client, served

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> AnswerMemory:
    """A memory of 10 bytes."""
    monkeypatch.setattr(answers, "MAX_ANSWER_BYTES", 10)
    return AnswerMemory()


def test_one_answer_has_the_limit(memory: AnswerMemory) -> None:
    with memory.answer("t") as reserve:
        reserve(4)
        reserve(6)
        with pytest.raises(ConfigurationError, match="table t: the tickets of this flight are longer than 10 bytes"):
            reserve(1)


def test_all_answers_have_the_limit_together_until_they_end(memory: AnswerMemory) -> None:
    with memory.answer("a") as first, memory.answer("b") as second:
        first(6)
        second(4)
        with pytest.raises(Overloaded, match="table b: the tickets of all flights that are planned now"):
            second(1)
        with pytest.raises(Overloaded):
            first(1)
    with memory.answer("c") as third:
        third(10)


def test_answer_that_failed_frees_its_memory(memory: AnswerMemory) -> None:
    with memory.answer("a") as first:
        first(6)
        with pytest.raises(Overloaded), memory.answer("b") as second:
            second(3)
            second(3)
        first(4)


@pytest.mark.golden
def test_flight_without_memory_for_its_tickets_is_refused(
    golden: GoldenTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served({"orders": golden.table("A_merge_event_long_v9_h120")}) as running:
        client = Client(running.address)
        size = sum(len(one.ticket.ticket) for one in client.info("orders").endpoints)  # of the next ones a little more
        monkeypatch.setattr(answers, "MAX_ANSWER_BYTES", 2 * size)
        assert client.rows("orders").num_rows, "the memory of earlier answers is free"
        with running.server.answers.answer("other") as reserve:
            reserve(2 * size - 1)
            with pytest.raises(fl.FlightUnavailableError, match="OVERLOADED: table orders: the tickets of all flights"):
                client.info("orders")
        monkeypatch.setattr(answers, "MAX_ANSWER_BYTES", size // 2)
        with pytest.raises(pa.ArrowInvalid, match="CONFIGURATION: table orders: the tickets of this flight"):
            client.info("orders")

"""From the table into the topic while real Hudi writes the topic into the table, and readers, server and broker are
killed: every record is read once, and the changes add up to the state of the topic."""

from __future__ import annotations

import itertools
import os
import pathlib
import random
import time
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.hybrid.delivered import appended, changed
from tests.hybrid.hybrid_harness import EntryPoint, HybridHarness, Moment, Strike, Victim
from tests.hybrid.lake_rounds import Kind, LakeFiller, WritePath
from tests.hybrid.topic_fold import append_problems, change_problems
from tests.hybrid.topic_records import TopicProducer, make_topic, read_topic
from tests.long_record import add_to_record
from tests.progress import PROGRESS_S

pytestmark = pytest.mark.timeout(900)

RUNS: Final = int(os.environ.get("PENSTOCK_HYBRID_RUNS", "50"))
SEED: Final = int(os.environ.get("PENSTOCK_SEED", "20261121"))
EVERY: Final = tuple(itertools.product(Kind, WritePath, EntryPoint))
SHORT: Final = (
    (Kind.APPEND, WritePath.STREAMER, EntryPoint.SERVED),
    (Kind.UPSERT, WritePath.HOODIE_STREAMER, EntryPoint.SPARK),
)
"""Each kind: a server's stream in Spark, and one without a server. `make test-all` has one of them, `make long` every
combination."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The parameters of a run; the others are drawn from its seed."""

    seed: int
    kind: Kind
    write_path: WritePath
    entry_point: EntryPoint

    @property
    def topic(self) -> str:
        """Unique for each run."""
        return f"hand.over-{self.seed}_{self.kind}_{self.write_path}_{self.entry_point}"


@pytest.mark.sampled(0, rest=1)
@pytest.mark.parametrize("number", [pytest.param(number, id="-".join(each)) for number, each in enumerate(SHORT)])
def test_readers_lose_and_repeat_nothing_across_the_hand_over(
    hudi: Any, kafka: Any, tmp_path: pathlib.Path, request: pytest.FixtureRequest, number: int
) -> None:
    """`make test-all` has one."""
    _run(Scenario(SEED + number, *SHORT[number]), hudi, kafka, tmp_path, request)


@pytest.mark.long
@pytest.mark.parametrize("number", range(RUNS))
def test_readers_lose_and_repeat_nothing_in_repeated_hand_overs(
    hudi: Any, kafka: Any, tmp_path: pathlib.Path, request: pytest.FixtureRequest, number: int
) -> None:
    """PENSTOCK_HYBRID_RUNS runs."""
    _run(Scenario(SEED + 100 + number, *EVERY[number % len(EVERY)]), hudi, kafka, tmp_path, request)


def _run(scenario: Scenario, hudi: Any, broker: Any, folder: pathlib.Path, request: pytest.FixtureRequest) -> None:
    streamer = request.getfixturevalue("streamer") if scenario.write_path is WritePath.HOODIE_STREAMER else None
    sink = request.getfixturevalue("penstock_sink") if scenario.write_path is WritePath.PENSTOCK else None
    started, rng = time.monotonic(), random.Random(scenario.seed)
    deletes, plain = scenario.kind is Kind.UPSERT, scenario.write_path is WritePath.HOODIE_STREAMER
    make_topic(broker.bootstrap, scenario.topic)
    producer = TopicProducer(
        broker.bootstrap,
        scenario.topic,
        random.Random(rng.random()),
        deletes=deletes,
        tombstones=not plain,
        transactions=rng.random() < 0.3 and not plain,
        idle=rng.choice((None, 0, 1, 2)),
    )
    drawn = random.Random(rng.random())
    filler = LakeFiller(
        hudi,
        folder,
        broker.bootstrap,
        scenario.topic,
        drawn,
        kind=scenario.kind,
        write_path=scenario.write_path,
        streamer=streamer,
        sink=sink,
    )
    harness = _harness(scenario, broker, filler, folder)
    strikes = _strikes(scenario, rng)
    try:
        harness.warm_up()
        producer.begin(rng.randrange(20, 200))
        _begin(producer, filler)
        producer.start()
        harness.begin(strikes)
        filler.start()
        harness.execute_strikes(strikes, rng, PROGRESS_S)
        harness.wait(lambda: harness.is_reached(Moment.KAFKA), PROGRESS_S, "rows of the topic")
        producer.wake_idle()
        _stop(producer, filler)
        harness.wait(lambda: not producer.is_alive() and not filler.is_alive(), PROGRESS_S, "the end of the writers")
        harness.wait(lambda: _is_all_there(harness, producer), PROGRESS_S, "the last records")
        harness.end()
    finally:
        harness.abandon()
        _stop(producer, filler)
        for writer in (producer, filler):
            if writer.is_alive():
                writer.join(PROGRESS_S)  # the next run needs Hudi for itself
    note = (
        f"hand-over {scenario.kind} {scenario.write_path} {scenario.entry_point}: seed {scenario.seed}, "
        f"{dict(filler.happened)}, {dict(harness.happened)}, {time.monotonic() - started:.0f} s"
    )
    assert producer.failure is None, f"{note}: {producer.failure!r}"
    assert filler.failure is None, f"{note}: {filler.failure!r}"
    records = read_topic(broker.bootstrap, scenario.topic)
    _report(f"{note}, {len(records)} records")
    rows = list(
        harness.delivered.of_splits() if scenario.entry_point is EntryPoint.GROUP else harness.delivered.of_batches()
    )
    problems = (
        list(change_problems(changed(rows), records, filler.hand_overs))
        if deletes
        else list(append_problems(appended(rows), records))
    )
    assert not harness.problems and not problems, "\n".join([note, *harness.problems, *problems])


def _begin(producer: TopicProducer, filler: LakeFiller) -> None:
    """Writes rounds until the table has rows: the first transaction may be aborted, or may not be visible yet."""
    give_up = time.monotonic() + PROGRESS_S
    filler.begin(1)
    while not (filler.table.exists() and filler.hand_overs):
        assert time.monotonic() < give_up, f"no round wrote the table: {dict(filler.happened)}"
        producer.begin(5)
        filler.begin(1)


def _stop(producer: TopicProducer, filler: LakeFiller) -> None:
    producer.request_stop()
    filler.request_stop()


def _harness(scenario: Scenario, broker: Any, filler: LakeFiller, folder: pathlib.Path) -> HybridHarness:
    reading = {"hybrid": "changelog" if scenario.kind is Kind.UPSERT else "append", "kafka.topic": scenario.topic}
    return HybridHarness(
        entry_point=scenario.entry_point,
        broker=broker,
        table=filler.table,
        folder=folder,
        reading=reading,
        client={"bootstrap.servers": broker.bootstrap},
        checkpoint=filler.checkpoint if scenario.write_path is WritePath.SINK else None,
        readers=2 if scenario.entry_point is EntryPoint.GROUP else 1,
    )


def _strikes(scenario: Scenario, rng: random.Random) -> list[Strike]:
    """A kill in each of two or three moments; one of them kills the broker."""
    moments = sorted(rng.sample(list(Moment), rng.choice((2, 3))), key=list(Moment).index)
    others = [Victim.READER] if scenario.entry_point is EntryPoint.SPARK else [Victim.READER, Victim.SERVER]
    victims = [rng.choice(others) for _ in moments]
    victims[rng.randrange(len(victims))] = Victim.BROKER
    return [
        Strike(moment, victim, rng.uniform(0, 1.5) if moment is Moment.KAFKA else 0.0, rng.choice((0.0, 0.5, 4.0)))
        for moment, victim in zip(moments, victims, strict=True)
    ]


def _is_all_there(harness: HybridHarness, producer: TopicProducer) -> bool:
    harness.delivered.refresh()
    return producer.closing <= harness.delivered.numbers()


def _report(text: str) -> None:
    """Prints the text, and appends it to the notes of `make long`."""
    print(text, flush=True)
    add_to_record(f"{time.strftime('%H:%M:%S')} {text}")

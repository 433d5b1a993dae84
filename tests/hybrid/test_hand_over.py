"""From the lake into the topic while real Hudi fills the one from the other, and readers, server and broker are killed:
every record is there, once, and the changes amount to the topic's own state."""

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
from tests.progress import PROGRESS_S

pytestmark = pytest.mark.timeout(900)

RUNS: Final = int(os.environ.get("PENSTOCK_HYBRID_RUNS", "50"))
SEED: Final = int(os.environ.get("PENSTOCK_SEED", "20261121"))
EVERY: Final = tuple(itertools.product(Kind, WritePath, EntryPoint))
SHORT: Final = (
    (Kind.APPEND, WritePath.STREAMER, EntryPoint.GROUP),
    (Kind.UPSERT, WritePath.SINK, EntryPoint.SPARK),
    (Kind.UPSERT, WritePath.HOODIE_STREAMER, EntryPoint.GROUP),
    (Kind.APPEND, WritePath.SINK, EntryPoint.SERVED),
    (Kind.UPSERT, WritePath.SINK, EntryPoint.GROUP),
)


@dataclass(frozen=True, slots=True)
class Plot:
    """What a run is about; all else is drawn from its seed."""

    seed: int
    kind: Kind
    write_path: WritePath
    entry_point: EntryPoint

    @property
    def topic(self) -> str:
        """No two runs share one."""
        return f"hand.over-{self.seed}_{self.kind}_{self.write_path}_{self.entry_point}"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", range(len(SHORT)), ids=lambda number: "-".join(SHORT[number]))
def test_handed_over(
    hudi: Any, kafka: Any, tmp_path: pathlib.Path, request: pytest.FixtureRequest, number: int
) -> None:
    """What `make test` can afford."""
    _run(Plot(SEED + number, *SHORT[number]), hudi, kafka, tmp_path, request)


@pytest.mark.long
@pytest.mark.parametrize("number", range(RUNS))
def test_handed_over_again_and_again(
    hudi: Any, kafka: Any, tmp_path: pathlib.Path, request: pytest.FixtureRequest, number: int
) -> None:
    """PENSTOCK_HYBRID_RUNS times."""
    _run(Plot(SEED + 100 + number, *EVERY[number % len(EVERY)]), hudi, kafka, tmp_path, request)


def _run(plot: Plot, hudi: Any, broker: Any, folder: pathlib.Path, request: pytest.FixtureRequest) -> None:
    streamer = request.getfixturevalue("streamer") if plot.write_path is WritePath.HOODIE_STREAMER else None
    began, rng = time.monotonic(), random.Random(plot.seed)
    deletes, plain = plot.kind is Kind.UPSERT, plot.write_path is WritePath.HOODIE_STREAMER
    make_topic(broker.bootstrap, plot.topic)
    producer = TopicProducer(
        broker.bootstrap,
        plot.topic,
        random.Random(rng.random()),
        deletes=deletes,
        tombstones=not plain,
        transactions=rng.random() < 0.3 and not plain,
        idle=rng.choice((None, 0, 1, 2)),
    )
    drawn = random.Random(rng.random())
    filler = LakeFiller(
        hudi, folder, broker.bootstrap, plot.topic, drawn, kind=plot.kind, write_path=plot.write_path, streamer=streamer
    )
    cast = _cast(plot, broker, filler, folder)
    strikes = _strikes(plot, rng)
    try:
        cast.warm_up()
        producer.begin(rng.randrange(20, 200))
        _begin(producer, filler)
        producer.start()
        cast.begin(strikes)
        filler.start()
        cast.carry_out(strikes, rng, PROGRESS_S)
        cast.wait(lambda: cast.has_come(Moment.KAFKA), PROGRESS_S, "rows of the topic")
        producer.wake_idle()
        _stop(producer, filler)
        cast.wait(lambda: not producer.is_alive() and not filler.is_alive(), PROGRESS_S, "the writers' end")
        cast.wait(lambda: _is_all_there(cast, producer), PROGRESS_S, "the last records")
        cast.end()
    finally:
        cast.abandon()
        _stop(producer, filler)
        for writer in (producer, filler):
            if writer.is_alive():
                writer.join(PROGRESS_S)  # the next run has Hudi to itself
    note = (
        f"hand-over {plot.kind} {plot.write_path} {plot.entry_point}: seed {plot.seed}, {dict(filler.happened)}, "
        f"{dict(cast.happened)}, {time.monotonic() - began:.0f} s"
    )
    assert producer.failure is None, f"{note}: {producer.failure!r}"
    assert filler.failure is None, f"{note}: {filler.failure!r}"
    records = read_topic(broker.bootstrap, plot.topic)
    _report(f"{note}, {len(records)} records")
    rows = list(cast.delivered.of_splits() if plot.entry_point is EntryPoint.GROUP else cast.delivered.of_batches())
    problems = (
        list(change_problems(changed(rows), records, filler.hand_overs))
        if deletes
        else list(append_problems(appended(rows), records))
    )
    assert not cast.problems and not problems, "\n".join([note, *cast.problems, *problems])


def _begin(producer: TopicProducer, filler: LakeFiller) -> None:
    """Rounds until there is a table: the first transaction may be aborted, or not be in the topic's end yet."""
    give_up = time.monotonic() + PROGRESS_S
    filler.begin(1)
    while not filler.table.exists():
        assert time.monotonic() < give_up, f"no round made a table: {dict(filler.happened)}"
        producer.begin(5)
        filler.begin(1)


def _stop(producer: TopicProducer, filler: LakeFiller) -> None:
    producer.ask_to_stop()
    filler.ask_to_stop()


def _cast(plot: Plot, broker: Any, filler: LakeFiller, folder: pathlib.Path) -> HybridHarness:
    reading = {"hybrid": "changelog" if plot.kind is Kind.UPSERT else "append", "kafka.topic": plot.topic}
    return HybridHarness(
        entry_point=plot.entry_point,
        broker=broker,
        table=filler.table,
        folder=folder,
        reading=reading,
        client={"bootstrap.servers": broker.bootstrap},
        checkpoint=filler.checkpoint if plot.write_path is WritePath.SINK else None,
        readers=2 if plot.entry_point is EntryPoint.GROUP else 1,
    )


def _strikes(plot: Plot, rng: random.Random) -> list[Strike]:
    """In each of two or three moments somebody is killed, the broker once."""
    moments = sorted(rng.sample(list(Moment), rng.choice((2, 3))), key=list(Moment).index)
    others = [Victim.READER] if plot.entry_point is EntryPoint.SPARK else [Victim.READER, Victim.SERVER]
    victims = [rng.choice(others) for _ in moments]
    victims[rng.randrange(len(victims))] = Victim.BROKER
    return [
        Strike(moment, victim, rng.uniform(0, 1.5) if moment is Moment.KAFKA else 0.0, rng.choice((0.0, 0.5, 4.0)))
        for moment, victim in zip(moments, victims, strict=True)
    ]


def _is_all_there(cast: HybridHarness, producer: TopicProducer) -> bool:
    cast.delivered.refresh()
    return producer.closing <= cast.delivered.numbers()


def _report(text: str) -> None:
    """On stdout, and in the record of `make long`."""
    print(text, flush=True)
    notes = os.environ.get("PENSTOCK_NOTES")
    if notes:
        with pathlib.Path(notes).open("a") as file:
            file.write(f"{time.strftime('%H:%M:%S')} {text}\n")

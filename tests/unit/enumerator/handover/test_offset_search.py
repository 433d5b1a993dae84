"""The offset search: precedence of keys, several writers, topics, archives, decreasing offsets, and the fallbacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.enumerator.handover.commit_offsets import (
    CONNECT,
    FLINK,
    FLINK_CHECKPOINT,
    NEVER_A_POSITION,
    SPARK_SINK,
    STREAMER_V1,
    STREAMER_V2,
    LakeCommit,
    NamedKey,
    WriterKind,
)
from penstock.enumerator.handover.explain import describe_origin, describe_step, notes
from penstock.enumerator.handover.offset_fallbacks import (
    Fallback,
    GivenOffsets,
    GroupOffsets,
    Guarantee,
    OffsetsAtTime,
    hand_over,
)
from penstock.enumerator.handover.offset_formats import Format, SinkBatch
from penstock.enumerator.handover.offset_search import (
    Compared,
    NotCompared,
    OffsetsFound,
    OffsetsNotFound,
    OffsetsTaken,
    SkippedByHint,
    SkippedEmptyCommit,
    SkippedOtherSource,
    SkippedTableService,
    WriterHints,
    find_offsets,
)
from penstock.enumerator.handover.offsets import OffsetMap
from penstock.proto.errors import ConfigurationError, DataInvalidated, FormatError, PositionExpired

Extra = Mapping[str, str]
COMPACTION: Extra = {"#service": ""}
EMPTY: Extra = {"#empty": ""}
OTHER: Extra = {}


def commits(*extras: Extra, archived: bool = False) -> list[LakeCommit]:
    """Commits in the order of the search, the newest first. A key with `#` is a property, not metadata."""
    return [
        LakeCommit(
            instant=f"{1000 - number - 500 * archived}",
            order_key=f"{1000 - number - 500 * archived}",
            action="commit" if "#service" in extra else "deltacommit",
            operation="COMPACT" if "#service" in extra else "UPSERT",
            is_service="#service" in extra,
            wrote_nothing="#empty" in extra,
            extra={key: value for key, value in extra.items() if not key.startswith("#")},
            archived=archived,
        )
        for number, extra in enumerate(extras)
    ]


def no_checkpoints(batch: SinkBatch) -> tuple[OffsetMap, ...] | None:
    return None


def walked(*extras: Extra, rules: WriterHints | None = None) -> OffsetsFound | OffsetsNotFound:
    return find_offsets(commits(*extras), (), rules or WriterHints(), no_checkpoints)


def search(*extras: Extra, rules: WriterHints | None = None) -> OffsetsFound:
    answer = walked(*extras, rules=rules)
    assert isinstance(answer, OffsetsFound)
    return answer


def streamer(text: str) -> Extra:
    return {STREAMER_V2: text}


def batches(**by_batch: dict[int, int]) -> object:
    """`a0={0: 5}`: batch 0 of the query `a` ends at offset 5 of partition 0."""

    def checkpoint(batch: SinkBatch) -> tuple[OffsetMap, ...] | None:
        offsets = by_batch.get(f"{batch.identifier}{batch.batch_id}")
        return None if offsets is None else (OffsetMap("t", tuple(offsets.items())),)

    return checkpoint


class TestOneWriter:
    """Keys of one commit, and instants without a key."""

    def test_newest_commit_counts(self) -> None:
        answer = search(streamer("t,0:5"), streamer("t,0:3"))
        assert answer.offsets == OffsetMap("t", ((0, 5),))
        assert [type(step.verdict) for step in answer.steps] == [OffsetsTaken, Compared]

    def test_services_are_skipped_even_with_a_copied_key(self) -> None:
        copied = {**COMPACTION, STREAMER_V2: "t,0:99"}
        answer = search(COMPACTION, copied, streamer("t,0:5"))
        assert answer.offsets.by_partition() == {0: 5}
        assert [type(step.verdict) for step in answer.steps] == [SkippedTableService, SkippedTableService, OffsetsTaken]

    def test_empty_commit_is_skipped(self) -> None:
        answer = search(EMPTY, streamer("t,0:5"))
        assert [type(step.verdict) for step in answer.steps] == [SkippedEmptyCommit, OffsetsTaken]

    def test_precedence_within_a_commit(self) -> None:
        keys = {
            "mine": '{"t":{"0":6}}',
            STREAMER_V2: "t,0:5",
            STREAMER_V1: "t,0:4",
            CONNECT: "0=3",
            FLINK: "kafka_metadata%3At%3A0:2",
        }
        rules = WriterHints(topic="t", named=NamedKey("mine", Format.JSON))
        for expected in (6, 5, 4, 3, 2):
            assert search(keys, rules=rules).offsets.by_partition() == {0: expected}
            keys.pop(next(iter(keys)))

    def test_upgraded_timeline_has_both_keys_of_one_writer(self) -> None:
        answer = search({STREAMER_V2: "t,0:5"}, {STREAMER_V1: "t,0:3"})
        assert [type(step.verdict) for step in answer.steps] == [OffsetsTaken, Compared]

    @pytest.mark.parametrize("key", NEVER_A_POSITION)
    def test_reset_and_ignore_keys_are_never_a_position(self, key: str) -> None:
        answer = search({**streamer("t,0:5"), key: "t,0:1"})
        assert answer.offsets.by_partition() == {0: 5}
        assert key in describe_step(answer.steps[0])
        assert isinstance(walked({key: "t,0:1"}), OffsetsNotFound)

    def test_malformed_value_is_an_error_with_instant_and_key(self) -> None:
        with pytest.raises(FormatError, match=rf"deltacommit 1000, key {STREAMER_V2}: .*'0:x'|'x'"):
            walked(streamer("t,0:x"))

    def test_malformed_older_value_is_only_reported(self) -> None:
        answer = search(streamer("t,0:5"), streamer("t,0:x"))
        assert isinstance(answer.steps[1].verdict, NotCompared)

    def test_connect_needs_the_topic(self) -> None:
        with pytest.raises(ConfigurationError, match="--topic"):
            walked({CONNECT: "0=3"})
        assert search({CONNECT: "0=3"}, rules=WriterHints(topic="t")).offsets == OffsetMap("t", ((0, 3),))

    def test_flink_without_offsets_refers_to_its_checkpoint(self) -> None:
        silent = {FLINK: "kafka_metadata%3Akafka_cluster%3At%3A:c", FLINK_CHECKPOINT: "12"}
        answer = walked(silent)
        assert isinstance(answer, OffsetsNotFound)
        assert "checkpoint 12" in describe_step(answer.steps[0])


class TestSeveralWriters:
    """Offsets belong to their writer."""

    def test_newer_commit_without_a_key_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match=r"several writers.*deltacommit 1000 added rows"):
            walked(OTHER, COMPACTION, streamer("t,0:5"))

    def test_newer_commit_without_a_key_is_skipped_if_others_do_not_read_the_topic(self) -> None:
        answer = search(OTHER, streamer("t,0:5"), rules=WriterHints(others_read_topic=False))
        assert [type(step.verdict) for step in answer.steps] == [SkippedByHint, OffsetsTaken]
        assert any("the user states" in note for note in notes(hand_over(answer)))

    def test_older_commit_without_a_key_is_skipped(self) -> None:
        assert search(streamer("t,0:5"), OTHER).offsets.by_partition() == {0: 5}

    def test_streamer_of_files_does_not_read_the_topic(self) -> None:
        answer = search(streamer("1699999999000"), streamer("t,0:5"))
        assert isinstance(answer.steps[0].verdict, SkippedOtherSource)

    def test_row_12_two_topics_need_a_name(self) -> None:
        with pytest.raises(ConfigurationError, match=r"several topics.*--topic"):
            walked(streamer("a,0:5"), streamer("b,0:7"))
        assert search(streamer("a,0:5"), streamer("b,0:7"), rules=WriterHints(topic="a")).offsets.by_partition() == {
            0: 5
        }
        assert search(streamer("a,0:5"), streamer("b,0:7"), rules=WriterHints(topic="b")).offsets.by_partition() == {
            0: 7
        }

    def test_older_writer_with_higher_offsets_is_a_second_writer(self) -> None:
        with pytest.raises(ConfigurationError, match="several writers read topic t: connect and streamer"):
            walked({CONNECT: "1=5"}, streamer("t,0:3"), rules=WriterHints(topic="t"))

    def test_older_writer_with_lower_offsets_is_a_predecessor(self) -> None:
        assert search({CONNECT: "0=5"}, streamer("t,0:3"), rules=WriterHints(topic="t")).offsets.by_partition() == {
            0: 5
        }


class TestDecreasingOffsets:
    """Offsets of one writer never decrease."""

    @pytest.mark.parametrize("older", ["t,0:6", "t,0:5,1:0"])
    def test_decreasing_offsets_are_an_error(self, older: str) -> None:
        with pytest.raises(DataInvalidated, match="created again"):
            walked(streamer("t,0:5"), streamer("t,0:4"), streamer(older))

    @given(st.lists(st.dictionaries(st.integers(0, 3), st.integers(0, 9), min_size=1), min_size=1, max_size=6))
    def test_search_returns_the_newest_offsets_or_an_error(self, maps: list[dict[int, int]]) -> None:
        """The result is the newest map, if it covers every older one."""
        texts = ["t," + ",".join(f"{p}:{o}" for p, o in item.items()) for item in maps]
        covered = all(maps[0].get(p, -1) >= o for item in maps for p, o in item.items())
        try:
            answer = search(*map(streamer, texts))
        except DataInvalidated:
            assert not covered
        else:
            assert covered
            assert answer.offsets.by_partition() == maps[0]


class TestSpark:
    """Commits of the sink have a batch id; the offsets are in the query's checkpoint."""

    def test_checkpoint_is_required(self) -> None:
        with pytest.raises(ConfigurationError, match="--checkpoint w=FOLDER"):
            walked({SPARK_SINK: '{"w":"1"}'})

    def test_batches_have_the_offsets_of_the_checkpoint(self) -> None:
        checkpoint = batches(w1={0: 5}, w0={0: 3})
        near = commits({SPARK_SINK: '{"w":"1"}'}, {SPARK_SINK: '{"w":"0"}'})
        answer = find_offsets(near, (), WriterHints(), checkpoint)  # type: ignore[arg-type]
        assert isinstance(answer, OffsetsFound)
        assert answer.offsets.by_partition() == {0: 5}
        assert [type(step.verdict) for step in answer.steps] == [OffsetsTaken, Compared]

    def test_two_queries_are_refused_unless_both_are_named(self) -> None:
        checkpoint = batches(a1={0: 5}, a0={0: 3}, b7={1: 9})
        near = commits({SPARK_SINK: '{"a":"1"}'}, {SPARK_SINK: '{"b":"7"}'}, {SPARK_SINK: '{"a":"0"}'})
        for rules in (WriterHints(), WriterHints(sinks=("a",))):
            with pytest.raises(ConfigurationError, match="several writers"):
                find_offsets(near, (), rules, checkpoint)  # type: ignore[arg-type]
        both = find_offsets(near, (), WriterHints(sinks=("a", "b")), checkpoint)  # type: ignore[arg-type]
        assert isinstance(both, OffsetsFound)
        assert both.offsets.by_partition() == {0: 5, 1: 9}
        assert [source.reached.writer.identifier for source in both.sources] == ["a", "b"]
        one = find_offsets(near, (), WriterHints(sinks=("a",), others_read_topic=False), checkpoint)  # type: ignore[arg-type]
        assert isinstance(one, OffsetsFound)
        assert one.offsets.by_partition() == {0: 5}

    def test_named_query_without_commits_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="'b'"):
            find_offsets(
                commits({SPARK_SINK: '{"a":"1"}'}),
                (),
                WriterHints(sinks=("a", "b")),
                batches(a1={0: 5}),  # type: ignore[arg-type]
            )

    def test_two_identifiers_in_one_commit_are_refused(self) -> None:
        near = commits({SPARK_SINK: '{"a":"1","b":"7"}'})
        checkpoint = batches(a1={0: 5, 1: 1}, b7={1: 9})
        with pytest.raises(ConfigurationError, match="2 writers"):
            find_offsets(near, (), WriterHints(), checkpoint)  # type: ignore[arg-type]
        both = find_offsets(near, (), WriterHints(sinks=("a", "b")), checkpoint)  # type: ignore[arg-type]
        assert isinstance(both, OffsetsFound)
        assert both.offsets.by_partition() == {0: 5, 1: 9}

    def test_older_batch_that_spark_dropped_is_not_compared(self) -> None:
        def checkpoint(batch: SinkBatch) -> tuple[OffsetMap, ...]:
            if batch.batch_id == 0:
                raise PositionExpired("gone")
            return (OffsetMap("t", ((0, 5),)),)

        answer = find_offsets(
            commits({SPARK_SINK: '{"w":"1"}'}, {SPARK_SINK: '{"w":"0"}'}), (), WriterHints(), checkpoint
        )
        assert isinstance(answer, OffsetsFound)
        assert isinstance(answer.steps[1].verdict, NotCompared)
        with pytest.raises(PositionExpired):
            find_offsets(commits({SPARK_SINK: '{"w":"0"}'}), (), WriterHints(), checkpoint)

    def test_query_of_two_topics_needs_a_name(self) -> None:
        def checkpoint(batch: SinkBatch) -> tuple[OffsetMap, ...]:
            return (OffsetMap("a", ((0, 5),)), OffsetMap("b", ((0, 7),)))

        near = commits({SPARK_SINK: '{"w":"1"}'})
        with pytest.raises(ConfigurationError, match="topics a, b"):
            find_offsets(near, (), WriterHints(), checkpoint)
        answer = find_offsets(near, (), WriterHints(topic="b"), checkpoint)
        assert isinstance(answer, OffsetsFound)
        assert answer.offsets == OffsetMap("b", ((0, 7),))
        assert isinstance(find_offsets(near, (), WriterHints(topic="c"), checkpoint), OffsetsNotFound)


class TestArchive:
    """`far`: the commits of the archived timeline."""

    def test_archive_is_not_read_if_the_active_timeline_has_offsets(self) -> None:
        def far() -> Iterator[LakeCommit]:
            pytest.fail("the archive was read")
            yield

        assert isinstance(
            find_offsets(commits(streamer("t,0:5"), OTHER), far(), WriterHints(), no_checkpoints), OffsetsFound
        )

    def test_archive_is_read_if_the_active_timeline_has_no_offsets(self) -> None:
        far = commits(COMPACTION, streamer("t,0:5"), streamer("t,0:9"), archived=True)
        answer = find_offsets(commits(COMPACTION), far, WriterHints(), no_checkpoints)
        assert isinstance(answer, OffsetsFound)
        assert answer.sources[0].commit.archived
        assert answer.offsets.by_partition() == {0: 5}

    def test_commit_without_a_key_counts_in_the_archive(self) -> None:
        with pytest.raises(ConfigurationError, match="several writers"):
            find_offsets(commits(OTHER), commits(streamer("t,0:5"), archived=True), WriterHints(), no_checkpoints)


class TestFallbacks:
    """Fallbacks: commits, the consumer group, a time, the user's map; each only if requested."""

    GROUP = GroupOffsets("g", OffsetMap("t", ((0, 1),)))
    TIME = OffsetsAtTime(1_700_000_000_000, OffsetMap("t", ((0, 2),)))
    GIVEN = GivenOffsets(OffsetMap("t", ((0, 3),)))

    def test_commit_precedes_all_other_sources(self) -> None:
        outcome = hand_over(search(streamer("t,0:5")), [self.GIVEN, self.GROUP])
        assert outcome.offsets.by_partition() == {0: 5}
        assert outcome.guarantee is Guarantee.EXACT
        assert describe_origin(outcome.origin) == "deltacommit 1000 (streamer)"

    @pytest.mark.parametrize(
        ("steps", "expected", "guarantee"),
        [
            ((GIVEN, TIME, GROUP), 1, Guarantee.NO_LOSS),
            ((GIVEN, TIME), 2, Guarantee.NO_LOSS),
            ((GIVEN, GroupOffsets("g", None)), 3, Guarantee.AS_GIVEN),
        ],
    )
    def test_order_of_the_fallbacks(self, steps: tuple[Fallback, ...], expected: int, guarantee: Guarantee) -> None:
        outcome = hand_over(walked(OTHER), steps)
        assert (outcome.offsets.by_partition(), outcome.guarantee) == ({0: expected}, guarantee)
        assert "no commit holds offsets (1 searched" in notes(outcome)[0]
        assert len(outcome.passed) == (2 if any(step.offsets is None for step in steps) else 1)

    def test_missing_offsets_are_an_error_with_advice(self) -> None:
        for steps in ((), (GroupOffsets("g", None),)):
            with pytest.raises(ConfigurationError, match=r"--key and --format.*--starting-offsets"):
                hand_over(walked(COMPACTION), steps)

    def test_offsets_of_another_topic_are_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="of topic t, expected u"):
            hand_over(walked(OTHER), [self.GIVEN], "u")

    @pytest.mark.parametrize(
        ("extra", "rules", "guarantee"),
        [
            ({FLINK: "kafka_metadata%3At%3A0:2"}, WriterHints(), Guarantee.BEST_EFFORT),
            ({CONNECT: "0=2"}, WriterHints(topic="t"), Guarantee.EXACT),
            ({"k": "t,0:2"}, WriterHints(named=NamedKey("k", Format.STREAMER)), Guarantee.BEST_EFFORT),
        ],
    )
    def test_guarantee_depends_on_the_writer(self, extra: Extra, rules: WriterHints, guarantee: Guarantee) -> None:
        answer = search(extra, rules=rules)
        assert hand_over(answer).guarantee is guarantee
        named = answer.sources[0].reached.writer.kind is WriterKind.NAMED
        assert named == any("named by the user" in note for note in notes(hand_over(answer)))

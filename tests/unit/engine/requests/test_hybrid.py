"""Options of a hybrid read: results, combinations that are refused, and secrets that are never printed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from penstock.engine.requests.group import group_spec
from penstock.engine.requests.hybrid import changes_read, explicit_offsets, hybrid_of
from penstock.engine.requests.stream import check_stream_options, stream_scope
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import OnLostRange, StartAt
from penstock.proto.model.hybrid import HandOverRules, Hybrid, HybridMode, ValueFormat
from penstock.proto.model.queries import Changes, Incremental
from penstock.proto.model.reports import TableDescription
from penstock.proto.options.kafka import checkpoints_of
from penstock.proto.options.registry import EntryPoint, ParsedOptions, parse_options

BROKERS = {"kafka.bootstrap.servers": "h:9092"}
MINIMUM = {"hybrid": "changelog", "kafka.topic": "orders", **BROKERS}
SECRET = "pa55-word"


def never() -> TableDescription:
    raise AssertionError("the description of the table was requested")


def hybrid_options(entry_point: EntryPoint = EntryPoint.STREAM, /, **more: object) -> ParsedOptions:
    """The minimal options of a hybrid read, with `more`; None removes an option, `__` stands for a dot."""
    options = MINIMUM | {name.replace("__", "."): value for name, value in more.items()}
    return parse_options(options, entry_point=entry_point)


def of_stream(options: ParsedOptions) -> Hybrid:
    hybrid = stream_scope("t", options, never).request.hybrid
    assert hybrid is not None
    return hybrid


def test_minimal_options_of_a_hybrid_stream() -> None:
    hybrid = of_stream(hybrid_options())
    assert hybrid == Hybrid(mode=HybridMode.CHANGELOG, topic="orders")
    assert hybrid.access.client == (("bootstrap.servers", "h:9092"),)
    assert (hybrid.access.registry_url, hybrid.access.dead_letter) == ("", "")


def test_changelog_reads_changes_and_append_reads_rows() -> None:
    assert stream_scope("t", hybrid_options(), never).request.query == Changes(ChangeFormat.ROWS)
    assert stream_scope("t", hybrid_options(query="cdc", cdcFormat="rows"), never).request.query == Changes(
        ChangeFormat.ROWS
    )
    assert stream_scope("t", hybrid_options(hybrid="append"), never).request.query == Incremental()
    assert stream_scope("t", hybrid_options(hybrid="append", query="incremental"), never).request.query == Incremental()


def test_every_hybrid_option_reaches_its_field() -> None:
    hybrid = of_stream(
        hybrid_options(
            kafkaValueFormat="debezium-avro",
            schemaRegistryUrl="http://registry:8081",
            deadLetterPath="/letters",
            kafkaOffsetsKey="my.key",
            kafkaOffsetsFormat="connect",
            kafkaCheckpoint="a=/one,b=/two",
            othersReadOtherTopics="true",
            kafkaStartingGroup="writer",
            kafkaStartingTimestamp="1700000000000",
            kafkaStartingOffsets='{"orders":{"0":5}}',
            failOnDataLoss="false",
        )
    )
    assert hybrid == Hybrid(
        mode=HybridMode.CHANGELOG,
        topic="orders",
        value_format=ValueFormat.DEBEZIUM_AVRO,
        rules=HandOverRules(
            key="my.key",
            key_format="connect",
            checkpoints=(("a", "/one"), ("b", "/two")),
            others_elsewhere=True,
            group="writer",
            timestamp_ms=1_700_000_000_000,
            starting_offsets='{"orders":{"0":5}}',
        ),
        fail_on_data_loss=False,
    )
    assert (hybrid.access.registry_url, hybrid.access.dead_letter) == ("http://registry:8081", "/letters")


@pytest.mark.parametrize(("policy", "fails"), [("fail", True), ("earliest", False), (None, True)])
def test_expired_offsets_follow_on_lost_range(policy: str | None, fails: bool) -> None:
    assert of_stream(hybrid_options(onLostRange=policy)).fail_on_data_loss is fails
    spec = group_spec("t", hybrid_options(EntryPoint.CONSUMER, onLostRange=policy), never)
    assert spec.scope.request.hybrid is not None
    assert spec.scope.request.hybrid.fail_on_data_loss is fails


def test_group_has_the_same_topic_as_a_stream() -> None:
    spec = group_spec("t", hybrid_options(EntryPoint.CONSUMER, after="earliest"), never)
    assert spec.scope.request.hybrid == Hybrid(mode=HybridMode.CHANGELOG, topic="orders")
    assert spec.scope.request.query == Changes(ChangeFormat.ROWS)
    assert spec.start == StartAt()
    assert (
        group_spec("t", hybrid_options(EntryPoint.CONSUMER, hybrid="append"), never).scope.request.query
        == Incremental()
    )


def test_without_hybrid_there_is_no_topic() -> None:
    plain = parse_options({}, entry_point=EntryPoint.STREAM)
    assert stream_scope("t", plain, never).request.hybrid is None
    assert changes_read(plain) is None
    assert (
        changes_read(parse_options({"query": "cdc", "cdcFormat": "hudi"}, entry_point=EntryPoint.STREAM))
        is ChangeFormat.HUDI
    )


REFUSED: dict[str, tuple[Mapping[str, object], str]] = {
    "no topic": ({"kafka.topic": None}, r"hybrid=changelog continues in a topic: give kafka\.topic"),
    "a topic that Kafka does not allow": ({"kafka.topic": "a b"}, r"option kafka\.topic: got 'a b'"),
    "no brokers": ({"kafka.bootstrap.servers": None}, r"give kafka\.bootstrap\.servers"),
    "brokers that are none": ({"kafka.bootstrap.servers": ""}, r"give kafka\.bootstrap\.servers"),
    "another query": ({"query": "incremental"}, "hybrid=changelog returns changes, but query=incremental does not"),
    "a query of batches": ({"query": "snapshot"}, "query=snapshot"),
    "append and changes": ({"hybrid": "append", "query": "cdc"}, "hybrid=append returns rows.*use hybrid=changelog"),
    "Hudi's form of changes": ({"query": "cdc", "cdcFormat": "hudi"}, "cdcFormat=hudi with hybrid=changelog"),
    "an end": ({"upto": "20260101000000"}, "option upto ends a stream in the table"),
    "the newest as an end": ({"upto": "latest"}, "upto"),
    "a changelog from an instant on": ({"after": "20260101000000"}, "got after=20260101000000; leave after out"),
    "a changelog from the newest on": ({"after": "latest"}, "commits alone do not contain its deletes"),
    "the table again": ({"onLostRange": "snapshot"}, "onLostRange=snapshot returns the rows of the table again"),
    "rows held": ({"eventTime": "ts", "maxOutOfOrderness": "1s", "watermarkFallback": "hold"}, "=hold with hybrid"),
    "rows by commit": (
        {"eventTime": "ts", "maxOutOfOrderness": "1s", "watermarkFallback": "commitTime"},
        "watermarkFallback=commitTime with hybrid.*use scan",
    ),
    "Avro without a registry": ({"kafkaValueFormat": "avro"}, "kafkaValueFormat=avro.*give schemaRegistryUrl"),
    "a registry for JSON": ({"schemaRegistryUrl": "http://r"}, "schemaRegistryUrl.*kafkaValueFormat=json needs none"),
    "a key without its form": ({"kafkaOffsetsKey": "k"}, "kafkaOffsetsKey and kafkaOffsetsFormat.*give both"),
    "a form without its key": ({"kafkaOffsetsFormat": "json"}, "give both"),
    "a key that is no position": (
        {"kafkaOffsetsKey": "deltastreamer.checkpoint.reset_key", "kafkaOffsetsFormat": "streamer"},
        "does not hold consumed offsets",
    ),
    "dead letters in an unknown file system": (
        {"deadLetterPath": f"ftp://key:{SECRET}@b"},
        "option deadLetterPath .*: no file system is known for ftp:",
    ),
    "several checkpoints without ID": ({"kafkaCheckpoint": "/a,/b"}, "option kafkaCheckpoint: with several"),
    "a folder that a server would read": (
        {"kafkaCheckpoint": "/a", "server": "127.0.0.1:1"},
        "option kafkaCheckpoint with server",
    ),
    "offsets that are none": ({"kafkaStartingOffsets": "orders"}, "option kafkaStartingOffsets: got 'orders'"),
    "offsets of another topic": ({"kafkaStartingOffsets": "other,0:1"}, "expected the offsets of orders"),
    "the client's own place": ({"kafka.auto.offset.reset": "earliest"}, r"kafka\.auto\.offset\.reset must be error"),
    "the client's own commits": ({"kafka.enable.auto.commit": "true"}, r"kafka\.enable\.auto\.commit must be false"),
    "a topic among the settings": ({"kafka": {"topic": "orders"}}, r"holds a setting `topic`: give kafka\.topic"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_stream_refuses_options_that_exclude_each_other(case: str) -> None:
    more, expected = REFUSED[case]
    options = parse_options(MINIMUM | dict(more), entry_point=EntryPoint.STREAM)
    with pytest.raises(ConfigurationError, match=expected):
        check_stream_options(options)


STREAM_ONLY = ("rows held", "rows by commit", "a query of batches", "the newest as an end")


@pytest.mark.parametrize("case", [case for case in REFUSED if case not in STREAM_ONLY])
def test_group_refuses_options_that_exclude_each_other(case: str) -> None:
    more, expected = REFUSED[case]
    options = parse_options(MINIMUM | dict(more), entry_point=EntryPoint.CONSUMER)
    with pytest.raises(ConfigurationError, match=expected):
        group_spec("t", options, never)


@pytest.mark.parametrize(("entry_point", "after"), [(EntryPoint.STREAM, "earliest"), (EntryPoint.CONSUMER, "snapshot")])
def test_start_of_the_whole_table_is_snapshot_in_streams_and_earliest_in_groups(
    entry_point: EntryPoint, after: str
) -> None:
    with pytest.raises(ConfigurationError, match="begins with every row of the table"):
        hybrid_of(hybrid_options(entry_point, after=after), entry_point)
    assert (
        hybrid_of(
            hybrid_options(entry_point, after="snapshot" if entry_point is EntryPoint.STREAM else "earliest"),
            entry_point,
        )
        is not None
    )


@pytest.mark.parametrize("after", ["latest", "20260101000000", "earliest", "snapshot"])
def test_append_may_start_anywhere(after: str) -> None:
    assert hybrid_of(hybrid_options(hybrid="append", after=after), EntryPoint.STREAM) is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kafka.topic", "orders"),
        ("kafkaValueFormat", "json"),
        ("deadLetterPath", "/d"),
        ("kafkaStartingTimestamp", 1),
        ("othersReadOtherTopics", "on"),
        ("kafkaCheckpoint", "/c"),
    ],
)
def test_topic_options_need_hybrid(name: str, value: object) -> None:
    for entry_point, check in (
        (EntryPoint.STREAM, check_stream_options),
        (EntryPoint.CONSUMER, lambda o: group_spec("t", o, never)),
    ):
        with pytest.raises(ConfigurationError, match=f"option {name} configures the topic of a hybrid read"):
            check(parse_options({name: value}, entry_point=entry_point))


def test_client_settings_need_hybrid_and_are_not_printed() -> None:
    options = parse_options({"kafka.sasl.password": SECRET}, entry_point=EntryPoint.STREAM)
    with pytest.raises(ConfigurationError, match=r"option kafka\.\* configures the topic") as caught:
        check_stream_options(options)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("entry_point", [EntryPoint.BATCH, EntryPoint.ARROW, EntryPoint.CLI])
@pytest.mark.parametrize("name", ["hybrid", "kafka.topic", "kafka.bootstrap.servers", "kafkaValueFormat"])
def test_batch_refuses_hybrid(entry_point: EntryPoint, name: str) -> None:
    value = "append" if name == "hybrid" else "json"
    with pytest.raises(ConfigurationError, match=rf"option {name} does not apply here \({entry_point.value}\)"):
        parse_options({name: value}, entry_point=entry_point)


@pytest.mark.parametrize("case", [None, *REFUSED])
@pytest.mark.parametrize("entry_point", [EntryPoint.STREAM, EntryPoint.CONSUMER])
def test_errors_and_reprs_contain_no_secret(case: str | None, entry_point: EntryPoint) -> None:
    more = {} if case is None else dict(REFUSED[case][0])
    secrets = {"kafka.sasl.password": SECRET, "deadLetterPath": f"/letters/{SECRET}"}
    registry = {"kafkaValueFormat": "avro", "schemaRegistryUrl": f"http://u:{SECRET}@r"}
    options_map = MINIMUM | secrets | registry | more
    try:
        options = parse_options(options_map, entry_point=entry_point)
        text = repr(options)
        spec = (
            group_spec("t", options, never) if entry_point is EntryPoint.CONSUMER else stream_scope("t", options, never)
        )
        hybrid = hybrid_of(options, entry_point)
        assert hybrid is not None
        text += repr(spec) + repr(hybrid) + repr(hybrid.access) + str(hybrid)
    except ConfigurationError as error:
        text = f"{error} {error!r}"
    assert SECRET not in text


def test_access_is_not_part_of_the_scope() -> None:
    assert of_stream(hybrid_options()) == of_stream(
        hybrid_options(kafka__bootstrap__servers="other:9092", deadLetterPath="/x")
    )


def test_checkpoints_of_a_writer() -> None:
    assert checkpoints_of("c", ()) == ()
    assert checkpoints_of("c", ("/a/b=c",)) == (("", "/a/b=c"),)
    assert checkpoints_of("c", ("b=/x", "a=s3://y")) == (("a", "s3://y"), ("b", "/x"))
    for bad in (("=/x",), ("a=",), ("a=/x", "a=/y"), ("a=/x", "/y")):
        with pytest.raises(ConfigurationError, match="c"):
            checkpoints_of("c", bad)


def test_explicit_offsets_must_be_of_the_topic() -> None:
    both = '{"orders":{"0":1},"other":{"0":2}}'
    assert explicit_offsets("o", both, "other").offsets == ((0, 2),)
    assert explicit_offsets("o", "orders,1:7,0:5", "").offsets == ((0, 5), (1, 7))
    with pytest.raises(ConfigurationError, match="expected the offsets of one topic"):
        explicit_offsets("o", both, "")
    with pytest.raises(ConfigurationError, match=r"^o: "):
        explicit_offsets("o", "123", "orders")


def test_on_lost_range_snapshot_is_refused_for_hybrid() -> None:
    with pytest.raises(ConfigurationError, match="onLostRange=snapshot"):
        hybrid_of(hybrid_options(), EntryPoint.STREAM, OnLostRange.SNAPSHOT)


@pytest.mark.parametrize(
    "more", [{"hybrid": "kafka-first"}, {"after": "latest"}, {"hybrid": "append", "upto": "20260101000000000"}]
)
def test_kafka_first_and_table_after_is_refused(more: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"hybrid"):
        of_stream(hybrid_options(**more))

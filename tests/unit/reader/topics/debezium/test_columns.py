"""Both decoders of Debezium's JSON give the same rows, kinds, reasons and counts."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.proto.model.hybrid import ValueFormat
from penstock.reader.topics.debezium.columns import DebeziumColumns
from penstock.reader.topics.debezium.json import DebeziumJson
from penstock.reader.topics.record.read_schema import topic_read_schema
from tests.unit.reader.topics.fake_topic import topic_scan

TEXT, LONG = ["null", "string"], ["null", "long"]
FIELDS = (
    {"name": "id", "type": ["null", "int"]},
    {"name": "city", "type": TEXT},
    {"name": "_change_operation_type", "type": TEXT},
    {"name": "_upstream_event_processed_ts_ms", "type": LONG},
    {"name": "db_shard_source_partition", "type": TEXT},
    {"name": "_event_lsn", "type": LONG},
    {"name": "_event_bin_file", "type": TEXT},
    {"name": "_event_pos", "type": TEXT},
    {"name": "_event_seq", "type": TEXT},
)
SHAPE = topic_read_schema(topic_scan(*FIELDS, value_format=ValueFormat.DEBEZIUM_JSON))
VALUE = st.sampled_from(
    [b"1", b"-7", b"null", b'"x"', b'"12"', b"1.5", b"true", b"{}", b"[1]", b'"\\u00e9"', b"2147483648", b"01"]
)


def objects(names: list[bytes], value: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    member = st.tuples(st.sampled_from(names), value).map(lambda pair: b'"%s":%s' % pair)
    return st.lists(member, max_size=4, unique_by=lambda text: text.split(b":")[0]).map(
        lambda members: b"{" + b", ".join(members) + b"}"
    )


IMAGES = st.one_of(objects([b"id", b"city", b"_event_lsn", b"other"], VALUE), VALUE)
FILES = st.sampled_from([b'"binlog.000012"', b'"file"', b'" "', b'""', b"12", b"null", b'"a.b.7"', b'"\\n"'])
SOURCES = st.one_of(
    objects([b"name", b"lsn", b"pos", b"x"], VALUE),
    st.tuples(FILES, VALUE).map(lambda pair: b'{"file":%s,"pos":%s,"row":0}' % pair),
    VALUE,
)
OPS = st.sampled_from(
    [b'"c"', b'"u"', b'"r"', b'"d"', b'"d"', b'"m"', b'"t"', b'"\\u0063"', b'"cc"', b"1", b"null", b'""']
)


@st.composite
def events(draw: st.DrawFn) -> bytes:
    members = [b'"op":' + draw(OPS), b'"after":' + draw(IMAGES), b'"before":' + draw(IMAGES)]
    members += [b'"source":' + draw(SOURCES), b'"ts_ms":' + draw(VALUE), b'"transaction":null']
    remaining = draw(st.permutations(members))[: draw(st.integers(3, 6))]
    event = b"{" + b",".join(remaining) + b"}"
    wrap = draw(
        st.sampled_from(
            [b"%s", b"%s", b'{"schema":null,"payload":%s}', b'{"payload":%s}', b'{"payload":%s,"schema":{},"x":1}']
        )
    )
    return wrap % event


@pytest.mark.thorough
@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(st.none(), events()), max_size=6))
@example([b"", b"{}", b"[]", b"null", b'{"op":"c"}', b'{"schema":1,"payload":null}', b'{"schema":1,"payload":[]}'])
@example([b'{"op":"c","after":{"id":1}}x', b'{"op":"c","op":"d","after":{"id":1}}', b'{"op":"d"}', None])
def test_bulk_and_row_wise_decoding_agree(values: list[bytes | None]) -> None:
    answers = []
    for decoder in (DebeziumJson(SHAPE), DebeziumColumns(SHAPE)):
        result = decoder.values(values)
        result.rows.validate(full=True)
        assert result.kinds is not None
        kinds = [kind for place, kind in enumerate(result.kinds.tolist()) if place not in result.reasons]
        answers.append((result.rows.to_pylist(), kinds, dict(result.reasons), result.unknown))
    assert answers[0] == answers[1]

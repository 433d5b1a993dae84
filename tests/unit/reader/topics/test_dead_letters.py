"""Records of a topic that cannot be decoded: the error at the first of them, or dead letters in files and on stores."""

from __future__ import annotations

import base64
import json
import pathlib

import pytest

from penstock.proto.errors import ConfigurationError, StorageError, UndecodableRecord
from penstock.proto.model.hybrid import KafkaAccess
from penstock.reader.read_split import ReadOptions, SplitTally, read_split
from penstock.reader.topics import dead_letters
from penstock.reader.topics.reading import TopicReading
from tests.unit.reader.topics.fake_topic import order, read_all, rows_of, topic_of, topic_scan, topic_split


def test_bad_record_is_an_error_once_the_rows_in_front_of_it_are_handed_on() -> None:
    topic = topic_of(order(1), order(2), {"id": "x"}, order(4))
    batches = read_split(topic_scan(), topic_split(0, 4), topics=TopicReading(records=topic))
    first = next(batches)
    assert (first.next_ordinal, first.batch.num_rows) == (2, 2)
    with pytest.raises(UndecodableRecord) as caught:
        next(batches)
    assert str(caught.value).startswith(
        "table orders: topic orders, partition 0, offset 2: column id: the text 'x', expected a long; "
    )
    assert topic.closed == 1
    with pytest.raises(UndecodableRecord):
        read_all(topic_scan(), topic, start=2)
    assert [row["id"] for row in rows_of(read_all(topic_scan(), topic, start=3))] == [4]


def test_dead_letters_are_lines_and_the_read_continues(tmp_path: pathlib.Path) -> None:
    access = KafkaAccess(dead_letter=str(tmp_path / "letters"))
    values: list[object] = [order(number) for number in range(20)]
    values[3], values[11], values[12] = b"{", b'{"id": 1.5}', None
    topic = topic_of(*values, keys=[b"\xff\x00", b"k"] * 10)
    for _attempt in range(2):
        tally = SplitTally()
        batches = read_all(topic_scan(), topic, access=access, batch_rows=7, tally=tally)
        assert [row["id"] for row in rows_of(batches)] == [n for n in range(20) if n not in (3, 11, 12)]
        assert batches[-1].next_ordinal == 20
        assert dict(tally.report().counts) == {"kafka_records": 20, "kafka_undecodable": 3}
    (file,) = (tmp_path / "letters").iterdir()
    assert file.name == "orders-0-0-20.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["offset"] for line in lines] == [3, 11, 12]
    assert lines[0] == {
        "topic": "orders",
        "partition": 0,
        "offset": 3,
        "timestamp": 1_700_000_000_003,
        "key": base64.b64encode(b"k").decode(),
        "value": base64.b64encode(b"{").decode(),
        "reason": lines[0]["reason"],
    }
    assert "is not JSON" in lines[0]["reason"]
    assert lines[1]["reason"] == "column id: the number 1.5, expected a long"
    assert (lines[2]["key"], lines[2]["value"]) == (base64.b64encode(b"\xff\x00").decode(), None)


def test_dead_letters_of_a_resumed_read_do_not_replace_earlier_ones(tmp_path: pathlib.Path) -> None:
    access = KafkaAccess(dead_letter=str(tmp_path))
    topic = topic_of(b"{", order(1), b"}")
    read_all(topic_scan(), topic, access=access)
    read_all(topic_scan(), topic, access=access, start=1)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["orders-0-0-3.jsonl", "orders-0-1-3.jsonl"]


def test_dead_letters_on_a_store_are_whole_objects_of_bounded_size(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The objects exist before a batch is returned; an attempt from the same offset does not change them."""
    monkeypatch.setattr(dead_letters, "PART_BYTES", 1000)
    access = KafkaAccess(dead_letter=f"file://{tmp_path}/far/letters")
    topic = topic_of(*(b"{" if number % 2 else order(number) for number in range(40)))
    reading = TopicReading(records=topic, access=access)

    def letter_offsets() -> dict[str, list[int]]:
        files = sorted((tmp_path / "far/letters").iterdir())
        return {file.name: [json.loads(line)["offset"] for line in file.read_text().splitlines()] for file in files}

    def attempt() -> None:
        options = ReadOptions(batch_rows=4)
        for result in read_split(topic_scan(), topic_split(0, 40), topics=reading, options=options):
            assert set(range(1, result.next_ordinal, 2)) <= {
                offset for part in letter_offsets().values() for offset in part
            }

    attempt()
    whole = letter_offsets()
    assert len(whole) > 2
    assert list(whole)[:2] == ["orders-0-0-40.2.jsonl", "orders-0-0-40.3.jsonl"]
    assert sorted(offset for part in whole.values() for offset in part) == list(range(1, 40, 2))
    assert all((tmp_path / "far/letters" / name).stat().st_size < 1500 for name in whole)
    attempt()
    assert letter_offsets() == whole


def test_dead_letter_folder_of_an_unsupported_kind_is_refused() -> None:
    topic = topic_of(b"{")
    with pytest.raises(ConfigurationError, match=r"folder for dead letters .* no file system is known for ftp:"):
        read_all(topic_scan(), topic, access=KafkaAccess(dead_letter="ftp://u:secret@host/x"))
    with pytest.raises(StorageError, match="dead letters cannot be written"):
        read_all(topic_scan(), topic, access=KafkaAccess(dead_letter=__file__))

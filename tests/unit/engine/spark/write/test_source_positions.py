"""The positions of a micro-batch in the metadata of its commit."""

from __future__ import annotations

import json
import pathlib

import pytest

from penstock.engine.spark.write.source_positions import SINK_POSITIONS, source_positions
from penstock.enumerator.handover.commit_offsets import SINK_OFFSETS
from penstock.proto.errors import ConfigurationError

QUERY = "b031415c-f3d3-475a-ae77-25070b2b0b23"
LAKE = {"version": 2, "scope": "x", "table_id": "lake", "order_key": "20260101000000000", "index": 1, "content": {}}


def checkpoint_of(folder: pathlib.Path, *sources: str, version: str = "v1") -> str:
    """A checkpoint whose batch 7 ends at these offsets."""
    (folder / "offsets").mkdir()
    (folder / "metadata").write_text(json.dumps({"id": QUERY}))
    (folder / "offsets/7").write_text("\n".join([version, '{"batchWatermarkMs":0}', *sources]))
    return str(folder)


def test_topics_and_lakes_of_a_query(tmp_path: pathlib.Path) -> None:
    topics = '{"orders":{"1":5,"0":3}}', '{"parcels":{"0":9}}'
    folder = checkpoint_of(tmp_path, topics[0], "-", json.dumps(LAKE), topics[1], '{"logOffset":3}')
    assert {key: json.loads(value) for key, value in source_positions(folder, QUERY, 7).items()} == {
        SINK_OFFSETS: {"orders": {"0": 3, "1": 5}, "parcels": {"0": 9}},
        SINK_POSITIONS: [{"source": 2, "table_id": "lake", "order_key": "20260101000000000", "index": 1}],
    }


def test_query_without_topics_says_so(tmp_path: pathlib.Path) -> None:
    assert source_positions(checkpoint_of(tmp_path, '{"logOffset":3}'), QUERY, 7) == {SINK_OFFSETS: "{}"}


def test_two_sources_of_one_topic_have_no_common_offsets(tmp_path: pathlib.Path) -> None:
    folder = checkpoint_of(tmp_path, '{"orders":{"0":3}}', '{"orders":{"0":4}}')
    assert source_positions(folder, QUERY, 7) == {}


def test_folders_that_are_not_the_checkpoint_of_the_query_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigurationError, match="is not the checkpoint of a query, because it has no file `metadata`"):
        source_positions(str(tmp_path), QUERY, 7)
    folder = checkpoint_of(tmp_path, "-")
    with pytest.raises(ConfigurationError, match=f"of query '{QUERY}', expected that of query other"):
        source_positions(folder, "other", 7)
    with pytest.raises(ConfigurationError, match=r"lacks offsets/8, .* progress tracking is not supported"):
        source_positions(folder, QUERY, 8)
    (tmp_path / "metadata").write_text('["id"]')
    with pytest.raises(ConfigurationError, match="is the checkpoint of query '', expected"):
        source_positions(folder, QUERY, 7)


def test_another_form_of_the_offset_log_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigurationError, match=r"offsets/7: got 3 lines, the first 'v2', expected v1"):
        source_positions(checkpoint_of(tmp_path, "-", version="v2"), QUERY, 7)

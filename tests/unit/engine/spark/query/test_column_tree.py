"""Filters as Spark columns. tests/spark/query has those of a classic session, which need a JVM."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

from penstock.engine.spark.query.column_tree import name_of
from penstock.engine.spark.query.expressions import Name
from tests.unit.engine.spark.query import column_filters

ROOT = pathlib.Path(__file__).parents[5]


def test_column_of_spark_connect_reaches_the_scan() -> None:
    program = [sys.executable, "-W", "ignore", "-m", column_filters.__name__]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout) == [where for _, where in column_filters.FILTERS]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", ("a",)),
        ("a.b", ("a", "b")),
        ("`a.b`.c", ("a.b", "c")),
        ("`a``b`", ("a`b",)),
        ("", None),
        ("a.", None),
        ("a..b", None),
        ("`a", None),
        ("`a`b", None),
    ],
)
def test_text_of_a_column_names_it_as_in_spark(text: str, parts: tuple[str, ...] | None) -> None:
    assert name_of(text) == (None if parts is None else Name(parts))

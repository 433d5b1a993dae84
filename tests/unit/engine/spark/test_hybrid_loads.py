"""What `load()` shows and refuses where a stream goes on in a topic."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql import types as st

from penstock.engine.spark.options import door_before_use, loaded
from penstock.engine.spark.planning import schema_of
from penstock.engine.spark.reading import resolved
from penstock.engine.spark.source import PenstockDataSource
from penstock.engine.spark.stream_reader import PenstockStreamReader
from penstock.proto.errors import ConfigurationError
from penstock.proto.options import Door
from tests_golden import Golden  # type: ignore[import-not-found]

CASE = "A_v9_cow"

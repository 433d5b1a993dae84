"""Encodes Avro object container files with one record, as the timeline has them. Pure."""

from __future__ import annotations

import copy
import hashlib
import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro


def encode_container(schema: Mapping[str, Any], record: Mapping[str, object]) -> bytes:
    """The bytes of a file with one uncompressed record: the inverse of `avro_container.single_record`.

    The same arguments give the same bytes: the sync marker is a hash of schema and record. ValueError for a record
    that lacks a field of the schema, or has one that the schema lacks.
    """
    parsed = fastavro.parse_schema(copy.deepcopy(dict(schema)))  # parsing changes its argument
    datum = io.BytesIO()
    fastavro.schemaless_writer(datum, parsed, record, strict=True)
    marker = hashlib.sha256(json.dumps(schema).encode() + datum.getvalue()).digest()[:16]
    file = io.BytesIO()
    fastavro.writer(file, parsed, [record], codec="null", sync_marker=marker)
    return file.getvalue()

"""Split, Scan and PlanRequest as bytes, for embedded plans and for stored state; tests keep fixtures of every format.

The bytes are a message of `penstock.v1` (proto/v1/penstock.proto), written deterministically: equal values give equal
bytes. Decoding checks every field; bytes that are not such a message are a ConfigurationError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import DecodeError, Message

from penstock.proto.codec import checks as check
from penstock.proto.codec.splits import (
    scan_from_message,
    scan_to_message,
    split_from_message,
    split_to_message,
)
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.splits import Scan, Split
from penstock.proto.v1 import penstock_pb2 as pb

if TYPE_CHECKING:
    from penstock.proto.model.queries import PlanRequest

_M = TypeVar("_M", bound=Message)


def encode_split(split: Split) -> bytes:
    """The split as bytes; ConfigurationError if a field cannot be written."""
    with check.encoding(f"split {split.split_id!r}"):
        return split_to_message(split).SerializeToString(deterministic=True)


def decode_split(data: bytes) -> Split:
    """The split that was encoded. StateVersionError for a format version that this build does not know."""
    return split_from_message(_parsed("split", pb.Split(), data))


def encode_scan(scan: Scan) -> bytes:
    """The scan as bytes; ConfigurationError if a field cannot be written."""
    with check.encoding(f"scan of table {scan.table!r}"):
        return scan_to_message(scan).SerializeToString(deterministic=True)


def decode_scan(data: bytes) -> Scan:
    """The scan that was encoded. StateVersionError for a format version that this build does not know."""
    return scan_from_message(_parsed("scan", pb.Scan(), data))


def encode_request(request: PlanRequest) -> bytes:
    """The request as bytes; ConfigurationError if a field cannot be written."""
    from penstock.proto.codec.plan_calls import request_to_message  # late: a task only decodes scans and splits

    return request_to_message(request).SerializeToString(deterministic=True)


def decode_request(data: bytes) -> PlanRequest:
    """The request that was encoded. ConfigurationError for a query kind that this build does not know."""
    from penstock.proto.codec.plan_calls import request_from_message

    return request_from_message(_parsed("plan request", pb.OpenPlanRequest(), data))


def _parsed(what: str, message: _M, data: bytes) -> _M:
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise ConfigurationError(f"{len(data)} bytes are no {what} of Penstock: {error}") from error
    return message

"""Event times in records of a group: rules, alignment and spans as JSON values. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.proto.model.streams import Alignment, EventTimeRule, WatermarkFallback


def rule_to_json(rule: EventTimeRule) -> dict[str, Any]:
    """The rule; the inverse of `rule_from_json`."""
    return {
        "max_out_of_orderness_us": rule.max_out_of_orderness_us,
        "fallback": rule.fallback.value,
        "timezone": rule.timezone,
    }


def rule_from_json(fields: Mapping[str, Any]) -> EventTimeRule:
    """The inverse of `rule_to_json`. KeyError, ValueError, TypeError or ConfigurationError for other values."""
    return EventTimeRule(
        max_out_of_orderness_us=int(fields["max_out_of_orderness_us"]),
        fallback=WatermarkFallback(fields["fallback"]),
        timezone=str(fields["timezone"]),
    )


def alignment_to_json(alignment: Alignment) -> dict[str, Any]:
    """The membership in an alignment set; the inverse of `alignment_from_json`."""
    idle_us = alignment.idle_timeout_us
    fields = {"set": alignment.set, "max_drift_us": alignment.max_drift_us}
    return fields if idle_us is None else {**fields, "idle_timeout_us": idle_us}


def alignment_from_json(fields: Mapping[str, Any]) -> Alignment:
    """The inverse of `alignment_to_json`. KeyError, ValueError, TypeError or ConfigurationError for other values."""
    idle_us = fields.get("idle_timeout_us")
    return Alignment(
        set=str(fields["set"]),
        max_drift_us=int(fields["max_drift_us"]),
        idle_timeout_us=None if idle_us is None else int(idle_us),
    )


def span_to_json(span: EventTimeSpan) -> list[Any]:
    """[lower bound or null, upper bound or null, whether it is unbounded]."""
    return [span.low_us, span.high_us, span.is_unbounded]


def span_from_json(fields: Sequence[Any]) -> EventTimeSpan:
    """The inverse of `span_to_json`. ValueError or TypeError for other values."""
    low, high, is_unbounded = fields
    return EventTimeSpan(None if low is None else int(low), None if high is None else int(high), bool(is_unbounded))

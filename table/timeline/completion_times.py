"""The completion times of instants as moments in UTC. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo

from penstock.proto.model.completion import CompletionTimes
from penstock.proto.model.positions import InstantTime
from penstock.table.timeline.zones import instant_ms


def completion_times(known: Mapping[InstantTime, InstantTime], zone: tzinfo) -> CompletionTimes:
    """The completion times of instants (requested -> completion time, wall clock in `zone`) in UTC milliseconds.

    An instant whose requested or completion time is not of 14 or 17 digits, or not a calendar time, is left out. An
    hour that a zone's clock shows twice counts as the first of the two.
    """
    times: dict[int, int] = {}
    for requested, completion in known.items():
        completed_ms = instant_ms(completion, zone)
        if completed_ms is not None and len(requested) in (14, 17):
            times[int(requested)] = completed_ms
    ordered = sorted(times)
    return CompletionTimes(tuple(ordered), tuple(times[number] for number in ordered))

"""Requests and answers of `ServiceSplitService` as messages of `penstock.v1`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock.proto.codec import checks as check
from penstock.proto.codec.write_calls import touched_from_message, touched_to_message
from penstock.proto.model.names import checked_name
from penstock.proto.model.service_splits import (
    MAX_AVOIDED,
    Service,
    ServiceAnswer,
    ServiceOptions,
    ServiceOutcome,
    ServiceRequest,
    ServiceSplit,
    ServiceSplitId,
    ServiceSplitState,
    ServiceSplitSummary,
)
from penstock.proto.model.writes import TouchedGroups
from penstock.proto.v1 import penstock_pb2 as pb

MAX_LISTED: Final = 100_000
MAX_READERS: Final = 100_000
MAX_TEXT: Final = 4_000
"""Longest text of an outcome that is sent and accepted."""
ServiceSplitRequest = (
    pb.RequestServiceSplitRequest
    | pb.RenewServiceSplitRequest
    | pb.FinishServiceSplitRequest
    | pb.ListServiceSplitsRequest
)
_SERVICES: Final = tuple(service.value for service in Service)
_STATES: Final = tuple(state.value for state in ServiceSplitState)


def id_to_message(split: ServiceSplitId) -> pb.ServiceSplitId:
    """A split."""
    with check.encoding(str(split)):
        return pb.ServiceSplitId(table=split.table, service=split.service.value, instant=split.instant)


def id_of(what: str, message: pb.ServiceSplitId) -> ServiceSplitId:
    """The split of a message. ConfigurationError for a field that cannot be."""
    return ServiceSplitId(
        check.name(what, "split.table", message.table, check.MAX_PATH_CHARS),
        Service(check.one_of(what, "split.service", message.service, _SERVICES)),
        check.text(what, "split.instant", message.instant),
    )


def request_to_message(request: ServiceRequest) -> pb.RequestServiceSplitRequest:
    """A request; a bad name is refused before it is sent."""
    checked_name("member", request.member)
    with check.encoding("request for a split of a service"):
        return pb.RequestServiceSplitRequest(
            member=request.member,
            table=request.table,
            services=[each.value for each in request.services],
            looks_first=request.looks_first,
        )


def request_from_message(message: pb.RequestServiceSplitRequest) -> ServiceRequest:
    """ConfigurationError for a field that cannot be."""
    what = "request for a split of a service"
    services = check.counted(what, "services", message.services, len(_SERVICES))
    return ServiceRequest(
        member=checked_name("member", message.member),
        table=check.text(what, "table", message.table, check.MAX_PATH_CHARS),
        services=tuple(Service(check.one_of(what, "services", each, _SERVICES)) for each in services),
        looks_first=message.looks_first,
    )


def answer_to_message(answer: ServiceAnswer) -> pb.RequestServiceSplitResponse:
    """The answer to a request."""
    if answer.split is None:
        return pb.RequestServiceSplitResponse(retry_ms=answer.retry_ms, is_idle=answer.is_idle)
    split = answer.split
    return pb.RequestServiceSplitResponse(
        split=pb.ServiceSplit(
            id=id_to_message(split.id),
            attempt=split.attempt,
            lease_ms=split.lease_ms,
            options=_options_to_message(split.options),
            readers=split.readers,
            avoided=touched_to_message(TouchedGroups(groups=split.avoided)),
        )
    )


def answer_from_message(message: pb.RequestServiceSplitResponse) -> ServiceAnswer:
    """ConfigurationError for a field that cannot be."""
    what = "split of a service"
    if not message.HasField("split"):
        return ServiceAnswer(None, check.number(what, "retry_ms", message.retry_ms), message.is_idle)
    split = message.split
    avoided = touched_from_message(what, split.avoided).groups
    check.counted(what, "avoided", tuple(avoided), MAX_AVOIDED)
    return ServiceAnswer(
        ServiceSplit(
            id=id_of(what, split.id),
            attempt=check.number(what, "attempt", split.attempt),
            lease_ms=_lease(what, split.lease_ms),
            options=_options_from_message(what, split.options),
            readers=check.names(what, "readers", split.readers, MAX_READERS),
            avoided=avoided,
        )
    )


def renew_to_message(split: ServiceSplitId, member: str, attempt: int) -> pb.RenewServiceSplitRequest:
    """A sign of life."""
    return pb.RenewServiceSplitRequest(split=id_to_message(split), member=member, attempt=attempt)


def renew_from_message(message: pb.RenewServiceSplitRequest) -> tuple[ServiceSplitId, str, int]:
    """(split, member, attempt). ConfigurationError for a field that cannot be."""
    return _held("renewal of a split", message)


def renewed_from_message(message: pb.RenewServiceSplitResponse) -> int:
    """The length of the lease. ConfigurationError for a field that cannot be."""
    return _lease("renewed split", message.lease_ms)


def finish_to_message(
    split: ServiceSplitId, member: str, attempt: int, outcome: ServiceOutcome
) -> pb.FinishServiceSplitRequest:
    """The end of a split; its text is cut to MAX_TEXT."""
    with check.encoding(str(split)):
        return pb.FinishServiceSplitRequest(
            split=id_to_message(split),
            member=member,
            attempt=attempt,
            code=outcome.code,
            text=outcome.text[:MAX_TEXT],
        )


def finish_from_message(message: pb.FinishServiceSplitRequest) -> tuple[ServiceSplitId, str, int, ServiceOutcome]:
    """(split, member, attempt, outcome). ConfigurationError for a field that cannot be."""
    what = "end of a split"
    outcome = ServiceOutcome(
        code=check.text(what, "code", message.code), text=check.text(what, "text", message.text, MAX_TEXT)
    )
    return (*_held(what, message), outcome)


def list_to_message(splits: Iterable[ServiceSplitSummary]) -> pb.ListServiceSplitsResponse:
    """The answer to a list."""
    return pb.ListServiceSplitsResponse(
        splits=[
            pb.ServiceSplitSummary(
                split=id_to_message(each.id),
                state=each.state.value,
                member=each.member,
                age_ms=each.age_ms,
                failures=each.failures,
                error=each.error,
            )
            for each in splits
        ]
    )


def list_from_message(message: pb.ListServiceSplitsResponse) -> tuple[ServiceSplitSummary, ...]:
    """ConfigurationError for a field that cannot be."""
    what = "list of splits of services"
    return tuple(
        ServiceSplitSummary(
            id=id_of(what, each.split),
            state=ServiceSplitState(check.one_of(what, "state", each.state, _STATES)),
            member=check.text(what, "member", each.member),
            age_ms=check.number(what, "age_ms", each.age_ms),
            failures=check.number(what, "failures", each.failures),
            error=check.text(what, "error", each.error, 2 * MAX_TEXT),
        )
        for each in check.counted(what, "splits", message.splits, MAX_LISTED)
    )


def listed_table(message: pb.ListServiceSplitsRequest) -> str:
    """The table whose splits are listed; '' for all."""
    return check.text("list of splits of services", "table", message.table, check.MAX_PATH_CHARS)


def _held(
    what: str, message: pb.RenewServiceSplitRequest | pb.FinishServiceSplitRequest
) -> tuple[ServiceSplitId, str, int]:
    attempt = check.number(what, "attempt", message.attempt)
    return id_of(what, message.split), checked_name("member", message.member), attempt


def _lease(what: str, lease_ms: int) -> int:
    if not lease_ms:
        raise check.breach(what, "lease_ms", "0", "1 or more")
    return check.number(what, "lease_ms", lease_ms)


def _options_to_message(options: ServiceOptions) -> pb.ServiceOptions:
    with check.encoding("options of a service"):
        return pb.ServiceOptions(
            plan_bytes=options.plan_bytes,
            sort_by=options.sort_by or (),
            sorts=options.sort_by is not None,
            compact_after=options.compact_after,
            index=options.index,
            commits=options.commits,
            hours=options.hours,
            file_versions=options.file_versions,
            keep_min=options.keep_min,
            keep_max=options.keep_max,
            hold_at_most=options.hold_at_most,
            timeline_timezone=options.timeline_timezone,
        )


def _options_from_message(what: str, message: pb.ServiceOptions) -> ServiceOptions:
    return ServiceOptions(
        plan_bytes=check.number(what, "plan_bytes", message.plan_bytes),
        sort_by=check.names(what, "sort_by", message.sort_by) if message.sorts else None,
        compact_after=message.compact_after if message.HasField("compact_after") else None,
        index=check.text(what, "index", message.index),
        commits=message.commits if message.HasField("commits") else None,
        hours=message.hours if message.HasField("hours") else None,
        file_versions=message.file_versions if message.HasField("file_versions") else None,
        keep_min=message.keep_min if message.HasField("keep_min") else None,
        keep_max=message.keep_max if message.HasField("keep_max") else None,
        hold_at_most=check.text(what, "hold_at_most", message.hold_at_most),
        timeline_timezone=check.text(what, "timeline_timezone", message.timeline_timezone),
    )

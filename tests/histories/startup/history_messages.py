"""The parts of requests and answers that a history has, as JSON."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def asked(name: str, request: Any) -> Json:
    """The parts of a request."""
    match name:
        case "JoinGroup":
            scope = request.scope
            named = {"group": request.group, "reader": request.reader_id, "table": scope.request.table}
            return {**named, "over": scope.over_tables, "lost": scope.on_lost_range}
        case "Heartbeat" | "LeaveGroup":
            return {"member": _member(request.member)}
        case "RequestSplits":
            return {"member": _member(request.member), "sequence": request.sequence}
        case "CommitSplits":
            done = [[each.plan_id, each.index, each.ordinal, each.finished] for each in request.done]
            return {"member": _member(request.member), "done": done}
        case "DescribeGroup" | "DeleteGroup":
            return {"table": request.table, "group": request.group}
        case "ResetGroup":
            return {"table": request.table, "group": request.group, "dry_run": request.dry_run}
        case "NextSplit" | "FinishSplit":
            return {"entry": [request.plan_id, request.slot, request.index]}
        case "NextBatch":
            return {"point": _point(request.point)}
        case "DescribePlan":
            return {"plan": request.plan_id}
        case "AddTable" | "RemoveTable":
            return {"table": request.table}
        case _:
            return {}


def received(name: str, answer: Any) -> Json:
    """The parts of an answer."""
    match name:
        case "JoinGroup":
            return {"member": _member(answer.member)}
        case "RequestSplits":
            kind = answer.WhichOneof("answer")
            return {"kind": kind, "splits": [_assigned(each) for each in answer.assignments.splits]}
        case "ListGroups":
            return {"groups": [_summary(each) for each in answer.groups]}
        case "DescribeGroup":
            return {"described": _described(answer)}
        case "ResetGroup":
            return {"before": _position(answer.before), "after": _position(answer.after)}
        case "OpenPlan":
            return {"plan": answer.plan_id, "splits": answer.splits, "slots": answer.slots}
        case "DescribePlan":
            return {"every_row": not answer.scan.where and not answer.scan.HasField("rows")}
        case "NextSplit":
            return {"split": answer.split.split_id if answer.WhichOneof("answer") == "split" else None}
        case "NextBatch":
            return {"point": _point(answer.point)}
        case _:
            return {}


def failed(error: BaseException) -> Json:
    """The code of an error: the product's, or gRPC's if the server sent none."""
    import grpc

    if not isinstance(error, grpc.RpcError) or not isinstance(error, grpc.Call):
        return {"code": "UNKNOWN", "text": str(error)[:200]}
    from penstock.proto.codec.errors import received as failure_of

    failure = failure_of(error)
    return {"code": failure.code or f"grpc {failure.status.name}", "text": failure.details[:200]}


def _member(member: Any) -> list[Any]:
    return [member.table, member.group, member.reader_id, member.epoch]


def _position(position: Any) -> list[Any]:
    return [position.order_key, position.index]


def _point(point: Any) -> list[Any]:
    return _position(point.progress.position)


def _assigned(assigned: Any) -> Json:
    split = assigned.split
    fields: Json = {
        "place": [assigned.plan_id, assigned.index],
        "split": split.split_id,
        "lane": [split.partition, split.file_group],
        "start": assigned.start,
        "position": _position(assigned.position),
        "of": [assigned.table, assigned.epoch],
    }
    if split.HasField("kafka"):
        fields["topic"] = [split.kafka.topic, split.kafka.partition, split.kafka.first, split.kafka.end]
    return fields


def _summary(summary: Any) -> Json:
    return {
        "table": summary.table,
        "group": summary.group,
        "committed": _position(summary.committed),
        "planned": _position(summary.planned),
        "readers": summary.readers,
    }


def _described(answer: Any) -> Json:
    """What the server says about a group, except what is not stored: leases, lags, and what discovery found last."""
    return {
        **_summary(answer.summary),
        "over": answer.scope.over_tables,
        "rounds": answer.rounds,
        "pending": answer.pending_splits,
        "held": answer.held_splits,
        "members": sorted([each.reader_id, each.epoch, each.held_splits] for each in answer.readers),
        "error": answer.error_code,
        "watermark_us": answer.watermark_us if answer.HasField("watermark_us") else None,
    }

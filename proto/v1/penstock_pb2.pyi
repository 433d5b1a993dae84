from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Position(_message.Message):
    __slots__ = ("order_key", "index")
    ORDER_KEY_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    order_key: str
    index: int
    def __init__(self, order_key: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class DescribeTableRequest(_message.Message):
    __slots__ = ("table", "request_id", "client_version")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    table: str
    request_id: str
    client_version: str
    def __init__(self, table: _Optional[str] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class DescribeTableResponse(_message.Message):
    __slots__ = ("table", "base_path", "hudi_name", "table_type", "table_version", "timeline_layout", "timeline_timezone", "merge_mode", "record_key_fields", "partition_fields", "ordering_fields", "schema_json", "newest")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    BASE_PATH_FIELD_NUMBER: _ClassVar[int]
    HUDI_NAME_FIELD_NUMBER: _ClassVar[int]
    TABLE_TYPE_FIELD_NUMBER: _ClassVar[int]
    TABLE_VERSION_FIELD_NUMBER: _ClassVar[int]
    TIMELINE_LAYOUT_FIELD_NUMBER: _ClassVar[int]
    TIMELINE_TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    MERGE_MODE_FIELD_NUMBER: _ClassVar[int]
    RECORD_KEY_FIELDS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELDS_FIELD_NUMBER: _ClassVar[int]
    ORDERING_FIELDS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    table: str
    base_path: str
    hudi_name: str
    table_type: str
    table_version: int
    timeline_layout: int
    timeline_timezone: str
    merge_mode: str
    record_key_fields: _containers.RepeatedScalarFieldContainer[str]
    partition_fields: _containers.RepeatedScalarFieldContainer[str]
    ordering_fields: _containers.RepeatedScalarFieldContainer[str]
    schema_json: str
    newest: Position
    def __init__(self, table: _Optional[str] = ..., base_path: _Optional[str] = ..., hudi_name: _Optional[str] = ..., table_type: _Optional[str] = ..., table_version: _Optional[int] = ..., timeline_layout: _Optional[int] = ..., timeline_timezone: _Optional[str] = ..., merge_mode: _Optional[str] = ..., record_key_fields: _Optional[_Iterable[str]] = ..., partition_fields: _Optional[_Iterable[str]] = ..., ordering_fields: _Optional[_Iterable[str]] = ..., schema_json: _Optional[str] = ..., newest: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class NewestPositionRequest(_message.Message):
    __slots__ = ("table", "after", "max_commits", "request_id", "client_version")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    MAX_COMMITS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    table: str
    after: Position
    max_commits: int
    request_id: str
    client_version: str
    def __init__(self, table: _Optional[str] = ..., after: _Optional[_Union[Position, _Mapping]] = ..., max_commits: _Optional[int] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class NewestPositionResponse(_message.Message):
    __slots__ = ("position",)
    POSITION_FIELD_NUMBER: _ClassVar[int]
    position: Position
    def __init__(self, position: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class ListInstantsRequest(_message.Message):
    __slots__ = ("table", "after", "as_of", "max_instants", "request_id", "client_version")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    MAX_INSTANTS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    table: str
    after: str
    as_of: str
    max_instants: int
    request_id: str
    client_version: str
    def __init__(self, table: _Optional[str] = ..., after: _Optional[str] = ..., as_of: _Optional[str] = ..., max_instants: _Optional[int] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class TimelineInstant(_message.Message):
    __slots__ = ("requested_time", "completion_time", "action", "state", "file")
    REQUESTED_TIME_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TIME_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    requested_time: str
    completion_time: str
    action: str
    state: str
    file: str
    def __init__(self, requested_time: _Optional[str] = ..., completion_time: _Optional[str] = ..., action: _Optional[str] = ..., state: _Optional[str] = ..., file: _Optional[str] = ...) -> None: ...

class ListInstantsResponse(_message.Message):
    __slots__ = ("instants", "timeline_timezone", "more")
    INSTANTS_FIELD_NUMBER: _ClassVar[int]
    TIMELINE_TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    instants: _containers.RepeatedCompositeFieldContainer[TimelineInstant]
    timeline_timezone: str
    more: bool
    def __init__(self, instants: _Optional[_Iterable[_Union[TimelineInstant, _Mapping]]] = ..., timeline_timezone: _Optional[str] = ..., more: _Optional[bool] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SnapshotAsOf(_message.Message):
    __slots__ = ("instant",)
    INSTANT_FIELD_NUMBER: _ClassVar[int]
    instant: str
    def __init__(self, instant: _Optional[str] = ...) -> None: ...

class ReadOptimized(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Incremental(_message.Message):
    __slots__ = ("after", "upto", "without")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_FIELD_NUMBER: _ClassVar[int]
    after: Position
    upto: Position
    without: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, after: _Optional[_Union[Position, _Mapping]] = ..., upto: _Optional[_Union[Position, _Mapping]] = ..., without: _Optional[_Iterable[str]] = ...) -> None: ...

class Changes(_message.Message):
    __slots__ = ("after", "upto", "format", "without")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_FIELD_NUMBER: _ClassVar[int]
    after: Position
    upto: Position
    format: str
    without: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, after: _Optional[_Union[Position, _Mapping]] = ..., upto: _Optional[_Union[Position, _Mapping]] = ..., format: _Optional[str] = ..., without: _Optional[_Iterable[str]] = ...) -> None: ...

class SnapshotPart(_message.Message):
    __slots__ = ("at", "first", "end", "digest", "changes")
    AT_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    at: Position
    first: int
    end: int
    digest: str
    changes: str
    def __init__(self, at: _Optional[_Union[Position, _Mapping]] = ..., first: _Optional[int] = ..., end: _Optional[int] = ..., digest: _Optional[str] = ..., changes: _Optional[str] = ...) -> None: ...

class TopicRanges(_message.Message):
    __slots__ = ("ranges",)
    RANGES_FIELD_NUMBER: _ClassVar[int]
    ranges: _containers.RepeatedCompositeFieldContainer[KafkaRange]
    def __init__(self, ranges: _Optional[_Iterable[_Union[KafkaRange, _Mapping]]] = ...) -> None: ...

class OpenPlanRequest(_message.Message):
    __slots__ = ("table", "snapshot", "snapshot_as_of", "read_optimized", "incremental", "changes", "snapshot_part", "topic_ranges", "read_optimized_as_of", "columns", "where", "slots", "event_time", "target_split_bytes", "without_metadata", "delete_marker", "skip_corrupt", "columns_by_name", "event_time_unit", "of_stream", "scan_event_time", "hybrid", "completion_time", "timeline_timezone", "without_meta", "record_index", "request_id", "client_version")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_AS_OF_FIELD_NUMBER: _ClassVar[int]
    READ_OPTIMIZED_FIELD_NUMBER: _ClassVar[int]
    INCREMENTAL_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_PART_FIELD_NUMBER: _ClassVar[int]
    TOPIC_RANGES_FIELD_NUMBER: _ClassVar[int]
    READ_OPTIMIZED_AS_OF_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    TARGET_SPLIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_METADATA_FIELD_NUMBER: _ClassVar[int]
    DELETE_MARKER_FIELD_NUMBER: _ClassVar[int]
    SKIP_CORRUPT_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_BY_NAME_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_UNIT_FIELD_NUMBER: _ClassVar[int]
    OF_STREAM_FIELD_NUMBER: _ClassVar[int]
    SCAN_EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    HYBRID_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TIME_FIELD_NUMBER: _ClassVar[int]
    TIMELINE_TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_META_FIELD_NUMBER: _ClassVar[int]
    RECORD_INDEX_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    table: str
    snapshot: Snapshot
    snapshot_as_of: SnapshotAsOf
    read_optimized: ReadOptimized
    incremental: Incremental
    changes: Changes
    snapshot_part: SnapshotPart
    topic_ranges: TopicRanges
    read_optimized_as_of: SnapshotAsOf
    columns: _containers.RepeatedScalarFieldContainer[str]
    where: str
    slots: int
    event_time: str
    target_split_bytes: int
    without_metadata: bool
    delete_marker: DeleteMarker
    skip_corrupt: bool
    columns_by_name: bool
    event_time_unit: str
    of_stream: str
    scan_event_time: bool
    hybrid: Hybrid
    completion_time: bool
    timeline_timezone: str
    without_meta: bool
    record_index: bool
    request_id: str
    client_version: str
    def __init__(self, table: _Optional[str] = ..., snapshot: _Optional[_Union[Snapshot, _Mapping]] = ..., snapshot_as_of: _Optional[_Union[SnapshotAsOf, _Mapping]] = ..., read_optimized: _Optional[_Union[ReadOptimized, _Mapping]] = ..., incremental: _Optional[_Union[Incremental, _Mapping]] = ..., changes: _Optional[_Union[Changes, _Mapping]] = ..., snapshot_part: _Optional[_Union[SnapshotPart, _Mapping]] = ..., topic_ranges: _Optional[_Union[TopicRanges, _Mapping]] = ..., read_optimized_as_of: _Optional[_Union[SnapshotAsOf, _Mapping]] = ..., columns: _Optional[_Iterable[str]] = ..., where: _Optional[str] = ..., slots: _Optional[int] = ..., event_time: _Optional[str] = ..., target_split_bytes: _Optional[int] = ..., without_metadata: _Optional[bool] = ..., delete_marker: _Optional[_Union[DeleteMarker, _Mapping]] = ..., skip_corrupt: _Optional[bool] = ..., columns_by_name: _Optional[bool] = ..., event_time_unit: _Optional[str] = ..., of_stream: _Optional[str] = ..., scan_event_time: _Optional[bool] = ..., hybrid: _Optional[_Union[Hybrid, _Mapping]] = ..., completion_time: _Optional[bool] = ..., timeline_timezone: _Optional[str] = ..., without_meta: _Optional[bool] = ..., record_index: _Optional[bool] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class OpenPlanResponse(_message.Message):
    __slots__ = ("plan_id", "slots", "splits", "size_bytes", "scan")
    PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SCAN_FIELD_NUMBER: _ClassVar[int]
    plan_id: str
    slots: int
    splits: int
    size_bytes: int
    scan: Scan
    def __init__(self, plan_id: _Optional[str] = ..., slots: _Optional[int] = ..., splits: _Optional[int] = ..., size_bytes: _Optional[int] = ..., scan: _Optional[_Union[Scan, _Mapping]] = ...) -> None: ...

class DescribePlanRequest(_message.Message):
    __slots__ = ("plan_id", "request_id", "client_version")
    PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    plan_id: str
    request_id: str
    client_version: str
    def __init__(self, plan_id: _Optional[str] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class DescribePlanResponse(_message.Message):
    __slots__ = ("scan",)
    SCAN_FIELD_NUMBER: _ClassVar[int]
    scan: Scan
    def __init__(self, scan: _Optional[_Union[Scan, _Mapping]] = ...) -> None: ...

class NextSplitRequest(_message.Message):
    __slots__ = ("plan_id", "slot", "index", "request_id", "client_version")
    PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    plan_id: str
    slot: int
    index: int
    request_id: str
    client_version: str
    def __init__(self, plan_id: _Optional[str] = ..., slot: _Optional[int] = ..., index: _Optional[int] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class EndOfSlot(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NextSplitResponse(_message.Message):
    __slots__ = ("split", "end_of_slot")
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    END_OF_SLOT_FIELD_NUMBER: _ClassVar[int]
    split: Split
    end_of_slot: EndOfSlot
    def __init__(self, split: _Optional[_Union[Split, _Mapping]] = ..., end_of_slot: _Optional[_Union[EndOfSlot, _Mapping]] = ...) -> None: ...

class FinishSplitRequest(_message.Message):
    __slots__ = ("plan_id", "slot", "index", "report", "request_id", "client_version")
    PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    plan_id: str
    slot: int
    index: int
    report: SplitReport
    request_id: str
    client_version: str
    def __init__(self, plan_id: _Optional[str] = ..., slot: _Optional[int] = ..., index: _Optional[int] = ..., report: _Optional[_Union[SplitReport, _Mapping]] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class FinishSplitResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SplitReport(_message.Message):
    __slots__ = ("rows", "size_bytes", "phase_ms", "won", "lost_event_time", "duplicate", "deleted", "max_event_time_us", "skipped_gaps", "skipped_bytes", "pruned_row_groups", "pruned_rows", "counts")
    class PhaseMsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class CountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PHASE_MS_FIELD_NUMBER: _ClassVar[int]
    WON_FIELD_NUMBER: _ClassVar[int]
    LOST_EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    MAX_EVENT_TIME_US_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_GAPS_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_BYTES_FIELD_NUMBER: _ClassVar[int]
    PRUNED_ROW_GROUPS_FIELD_NUMBER: _ClassVar[int]
    PRUNED_ROWS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    size_bytes: int
    phase_ms: _containers.ScalarMap[str, float]
    won: int
    lost_event_time: int
    duplicate: int
    deleted: int
    max_event_time_us: int
    skipped_gaps: int
    skipped_bytes: int
    pruned_row_groups: int
    pruned_rows: int
    counts: _containers.ScalarMap[str, int]
    def __init__(self, rows: _Optional[int] = ..., size_bytes: _Optional[int] = ..., phase_ms: _Optional[_Mapping[str, float]] = ..., won: _Optional[int] = ..., lost_event_time: _Optional[int] = ..., duplicate: _Optional[int] = ..., deleted: _Optional[int] = ..., max_event_time_us: _Optional[int] = ..., skipped_gaps: _Optional[int] = ..., skipped_bytes: _Optional[int] = ..., pruned_row_groups: _Optional[int] = ..., pruned_rows: _Optional[int] = ..., counts: _Optional[_Mapping[str, int]] = ...) -> None: ...

class StartLatest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RoundLimits(_message.Message):
    __slots__ = ("max_commits", "max_files", "max_bytes", "max_rows")
    MAX_COMMITS_FIELD_NUMBER: _ClassVar[int]
    MAX_FILES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_ROWS_FIELD_NUMBER: _ClassVar[int]
    max_commits: int
    max_files: int
    max_bytes: int
    max_rows: int
    def __init__(self, max_commits: _Optional[int] = ..., max_files: _Optional[int] = ..., max_bytes: _Optional[int] = ..., max_rows: _Optional[int] = ...) -> None: ...

class GroupScope(_message.Message):
    __slots__ = ("request", "upto", "on_lost_range", "over_tables", "rule", "idle_timeout_us", "alignment")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    ON_LOST_RANGE_FIELD_NUMBER: _ClassVar[int]
    OVER_TABLES_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    IDLE_TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    ALIGNMENT_FIELD_NUMBER: _ClassVar[int]
    request: OpenPlanRequest
    upto: Position
    on_lost_range: str
    over_tables: bool
    rule: EventTimeRule
    idle_timeout_us: int
    alignment: Alignment
    def __init__(self, request: _Optional[_Union[OpenPlanRequest, _Mapping]] = ..., upto: _Optional[_Union[Position, _Mapping]] = ..., on_lost_range: _Optional[str] = ..., over_tables: _Optional[bool] = ..., rule: _Optional[_Union[EventTimeRule, _Mapping]] = ..., idle_timeout_us: _Optional[int] = ..., alignment: _Optional[_Union[Alignment, _Mapping]] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("table", "group", "reader_id", "epoch")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    READER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    table: str
    group: str
    reader_id: str
    epoch: int
    def __init__(self, table: _Optional[str] = ..., group: _Optional[str] = ..., reader_id: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class JoinGroupRequest(_message.Message):
    __slots__ = ("group", "reader_id", "scope", "start_latest", "start_at", "start_snapshot", "limits", "request_id", "client_version")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    READER_ID_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    START_LATEST_FIELD_NUMBER: _ClassVar[int]
    START_AT_FIELD_NUMBER: _ClassVar[int]
    START_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    group: str
    reader_id: str
    scope: GroupScope
    start_latest: StartLatest
    start_at: Position
    start_snapshot: StartSnapshot
    limits: RoundLimits
    request_id: str
    client_version: str
    def __init__(self, group: _Optional[str] = ..., reader_id: _Optional[str] = ..., scope: _Optional[_Union[GroupScope, _Mapping]] = ..., start_latest: _Optional[_Union[StartLatest, _Mapping]] = ..., start_at: _Optional[_Union[Position, _Mapping]] = ..., start_snapshot: _Optional[_Union[StartSnapshot, _Mapping]] = ..., limits: _Optional[_Union[RoundLimits, _Mapping]] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class JoinGroupResponse(_message.Message):
    __slots__ = ("member", "lease_ms")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    member: Member
    lease_ms: int
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., lease_ms: _Optional[int] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("member", "request_id", "client_version")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    member: Member
    request_id: str
    client_version: str
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("lease_ms",)
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    lease_ms: int
    def __init__(self, lease_ms: _Optional[int] = ...) -> None: ...

class RequestSplitsRequest(_message.Message):
    __slots__ = ("member", "max_splits", "sequence", "without_tables", "received", "wait_ms", "request_id", "client_version")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    MAX_SPLITS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_TABLES_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    member: Member
    max_splits: int
    sequence: int
    without_tables: _containers.RepeatedScalarFieldContainer[str]
    received: int
    wait_ms: int
    request_id: str
    client_version: str
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., max_splits: _Optional[int] = ..., sequence: _Optional[int] = ..., without_tables: _Optional[_Iterable[str]] = ..., received: _Optional[int] = ..., wait_ms: _Optional[int] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class AssignedSplit(_message.Message):
    __slots__ = ("plan_id", "index", "split", "start", "position", "table", "epoch", "watermark_us")
    PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_US_FIELD_NUMBER: _ClassVar[int]
    plan_id: str
    index: int
    split: Split
    start: int
    position: Position
    table: str
    epoch: int
    watermark_us: int
    def __init__(self, plan_id: _Optional[str] = ..., index: _Optional[int] = ..., split: _Optional[_Union[Split, _Mapping]] = ..., start: _Optional[int] = ..., position: _Optional[_Union[Position, _Mapping]] = ..., table: _Optional[str] = ..., epoch: _Optional[int] = ..., watermark_us: _Optional[int] = ...) -> None: ...

class Assignments(_message.Message):
    __slots__ = ("splits",)
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    splits: _containers.RepeatedCompositeFieldContainer[AssignedSplit]
    def __init__(self, splits: _Optional[_Iterable[_Union[AssignedSplit, _Mapping]]] = ...) -> None: ...

class NothingYet(_message.Message):
    __slots__ = ("retry_ms", "caught_up", "troubles")
    RETRY_MS_FIELD_NUMBER: _ClassVar[int]
    CAUGHT_UP_FIELD_NUMBER: _ClassVar[int]
    TROUBLES_FIELD_NUMBER: _ClassVar[int]
    retry_ms: int
    caught_up: bool
    troubles: _containers.RepeatedCompositeFieldContainer[TableTrouble]
    def __init__(self, retry_ms: _Optional[int] = ..., caught_up: _Optional[bool] = ..., troubles: _Optional[_Iterable[_Union[TableTrouble, _Mapping]]] = ...) -> None: ...

class TableTrouble(_message.Message):
    __slots__ = ("table", "code", "text")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    table: str
    code: str
    text: str
    def __init__(self, table: _Optional[str] = ..., code: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class EndOfGroup(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RequestSplitsResponse(_message.Message):
    __slots__ = ("assignments", "nothing_yet", "end_of_group", "watermark_us")
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    NOTHING_YET_FIELD_NUMBER: _ClassVar[int]
    END_OF_GROUP_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_US_FIELD_NUMBER: _ClassVar[int]
    assignments: Assignments
    nothing_yet: NothingYet
    end_of_group: EndOfGroup
    watermark_us: int
    def __init__(self, assignments: _Optional[_Union[Assignments, _Mapping]] = ..., nothing_yet: _Optional[_Union[NothingYet, _Mapping]] = ..., end_of_group: _Optional[_Union[EndOfGroup, _Mapping]] = ..., watermark_us: _Optional[int] = ...) -> None: ...

class SplitProgress(_message.Message):
    __slots__ = ("plan_id", "index", "ordinal", "finished", "report")
    PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    plan_id: str
    index: int
    ordinal: int
    finished: bool
    report: SplitReport
    def __init__(self, plan_id: _Optional[str] = ..., index: _Optional[int] = ..., ordinal: _Optional[int] = ..., finished: _Optional[bool] = ..., report: _Optional[_Union[SplitReport, _Mapping]] = ...) -> None: ...

class CommitSplitsRequest(_message.Message):
    __slots__ = ("member", "done", "request_id", "client_version")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    member: Member
    done: _containers.RepeatedCompositeFieldContainer[SplitProgress]
    request_id: str
    client_version: str
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., done: _Optional[_Iterable[_Union[SplitProgress, _Mapping]]] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class CommitSplitsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LeaveGroupRequest(_message.Message):
    __slots__ = ("member", "request_id", "client_version")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    member: Member
    request_id: str
    client_version: str
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class LeaveGroupResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListGroupsRequest(_message.Message):
    __slots__ = ("table", "request_id", "client_version")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    table: str
    request_id: str
    client_version: str
    def __init__(self, table: _Optional[str] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class GroupSummary(_message.Message):
    __slots__ = ("table", "group", "state", "committed", "planned", "readers", "tables", "over")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    PLANNED_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    table: str
    group: str
    state: str
    committed: Position
    planned: Position
    readers: int
    tables: int
    over: str
    def __init__(self, table: _Optional[str] = ..., group: _Optional[str] = ..., state: _Optional[str] = ..., committed: _Optional[_Union[Position, _Mapping]] = ..., planned: _Optional[_Union[Position, _Mapping]] = ..., readers: _Optional[int] = ..., tables: _Optional[int] = ..., over: _Optional[str] = ...) -> None: ...

class ListGroupsResponse(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[GroupSummary]
    def __init__(self, groups: _Optional[_Iterable[_Union[GroupSummary, _Mapping]]] = ...) -> None: ...

class DescribeGroupRequest(_message.Message):
    __slots__ = ("table", "group", "request_id", "client_version")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    table: str
    group: str
    request_id: str
    client_version: str
    def __init__(self, table: _Optional[str] = ..., group: _Optional[str] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class ReaderState(_message.Message):
    __slots__ = ("reader_id", "epoch", "held_splits", "lease_left_ms")
    READER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HELD_SPLITS_FIELD_NUMBER: _ClassVar[int]
    LEASE_LEFT_MS_FIELD_NUMBER: _ClassVar[int]
    reader_id: str
    epoch: int
    held_splits: int
    lease_left_ms: int
    def __init__(self, reader_id: _Optional[str] = ..., epoch: _Optional[int] = ..., held_splits: _Optional[int] = ..., lease_left_ms: _Optional[int] = ...) -> None: ...

class GroupLag(_message.Message):
    __slots__ = ("commits", "size_bytes", "seconds", "loss_commits", "loss_seconds", "holds_cleaner")
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    LOSS_COMMITS_FIELD_NUMBER: _ClassVar[int]
    LOSS_SECONDS_FIELD_NUMBER: _ClassVar[int]
    HOLDS_CLEANER_FIELD_NUMBER: _ClassVar[int]
    commits: int
    size_bytes: int
    seconds: float
    loss_commits: int
    loss_seconds: float
    holds_cleaner: bool
    def __init__(self, commits: _Optional[int] = ..., size_bytes: _Optional[int] = ..., seconds: _Optional[float] = ..., loss_commits: _Optional[int] = ..., loss_seconds: _Optional[float] = ..., holds_cleaner: _Optional[bool] = ...) -> None: ...

class GroupAlignment(_message.Message):
    __slots__ = ("set", "ceiling_us", "held", "set_number")
    SET_FIELD_NUMBER: _ClassVar[int]
    CEILING_US_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    SET_NUMBER_FIELD_NUMBER: _ClassVar[int]
    set: str
    ceiling_us: int
    held: bool
    set_number: int
    def __init__(self, set: _Optional[str] = ..., ceiling_us: _Optional[int] = ..., held: _Optional[bool] = ..., set_number: _Optional[int] = ...) -> None: ...

class DescribeGroupResponse(_message.Message):
    __slots__ = ("summary", "scope", "limits", "rounds", "pending_splits", "held_splits", "readers", "lag", "error_code", "error", "kafka", "tables", "watermark_us", "snapshot", "alignment", "snapshot_at")
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    PENDING_SPLITS_FIELD_NUMBER: _ClassVar[int]
    HELD_SPLITS_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    KAFKA_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_US_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    ALIGNMENT_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_AT_FIELD_NUMBER: _ClassVar[int]
    summary: GroupSummary
    scope: GroupScope
    limits: RoundLimits
    rounds: int
    pending_splits: int
    held_splits: int
    readers: _containers.RepeatedCompositeFieldContainer[ReaderState]
    lag: GroupLag
    error_code: str
    error: str
    kafka: KafkaPlace
    tables: _containers.RepeatedCompositeFieldContainer[GroupStatus]
    watermark_us: int
    snapshot: SnapshotPlace
    alignment: GroupAlignment
    snapshot_at: Position
    def __init__(self, summary: _Optional[_Union[GroupSummary, _Mapping]] = ..., scope: _Optional[_Union[GroupScope, _Mapping]] = ..., limits: _Optional[_Union[RoundLimits, _Mapping]] = ..., rounds: _Optional[int] = ..., pending_splits: _Optional[int] = ..., held_splits: _Optional[int] = ..., readers: _Optional[_Iterable[_Union[ReaderState, _Mapping]]] = ..., lag: _Optional[_Union[GroupLag, _Mapping]] = ..., error_code: _Optional[str] = ..., error: _Optional[str] = ..., kafka: _Optional[_Union[KafkaPlace, _Mapping]] = ..., tables: _Optional[_Iterable[_Union[GroupStatus, _Mapping]]] = ..., watermark_us: _Optional[int] = ..., snapshot: _Optional[_Union[SnapshotPlace, _Mapping]] = ..., alignment: _Optional[_Union[GroupAlignment, _Mapping]] = ..., snapshot_at: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class ResetGroupRequest(_message.Message):
    __slots__ = ("table", "group", "start_latest", "start_at", "start_snapshot", "dry_run", "request_id", "client_version")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    START_LATEST_FIELD_NUMBER: _ClassVar[int]
    START_AT_FIELD_NUMBER: _ClassVar[int]
    START_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    table: str
    group: str
    start_latest: StartLatest
    start_at: Position
    start_snapshot: StartSnapshot
    dry_run: bool
    request_id: str
    client_version: str
    def __init__(self, table: _Optional[str] = ..., group: _Optional[str] = ..., start_latest: _Optional[_Union[StartLatest, _Mapping]] = ..., start_at: _Optional[_Union[Position, _Mapping]] = ..., start_snapshot: _Optional[_Union[StartSnapshot, _Mapping]] = ..., dry_run: _Optional[bool] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class ResetGroupResponse(_message.Message):
    __slots__ = ("before", "after", "dropped_splits", "dry_run")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    DROPPED_SPLITS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    before: Position
    after: Position
    dropped_splits: int
    dry_run: bool
    def __init__(self, before: _Optional[_Union[Position, _Mapping]] = ..., after: _Optional[_Union[Position, _Mapping]] = ..., dropped_splits: _Optional[int] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class DeleteGroupRequest(_message.Message):
    __slots__ = ("table", "group", "request_id", "client_version")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    table: str
    group: str
    request_id: str
    client_version: str
    def __init__(self, table: _Optional[str] = ..., group: _Optional[str] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class DeleteGroupResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeServerRequest(_message.Message):
    __slots__ = ("table", "request_id", "client_version")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    table: str
    request_id: str
    client_version: str
    def __init__(self, table: _Optional[str] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class GroupStatus(_message.Message):
    __slots__ = ("summary", "pending_splits", "held_splits", "lag", "issued_ms", "rows", "size_bytes", "finished_splits", "expired_splits", "fenced", "rows_per_second", "bytes_per_second", "error_code", "lag_age_ms", "watermark_us", "alignment")
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    PENDING_SPLITS_FIELD_NUMBER: _ClassVar[int]
    HELD_SPLITS_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    ISSUED_MS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    FINISHED_SPLITS_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_SPLITS_FIELD_NUMBER: _ClassVar[int]
    FENCED_FIELD_NUMBER: _ClassVar[int]
    ROWS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    LAG_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_US_FIELD_NUMBER: _ClassVar[int]
    ALIGNMENT_FIELD_NUMBER: _ClassVar[int]
    summary: GroupSummary
    pending_splits: int
    held_splits: int
    lag: GroupLag
    issued_ms: int
    rows: int
    size_bytes: int
    finished_splits: int
    expired_splits: int
    fenced: int
    rows_per_second: float
    bytes_per_second: float
    error_code: str
    lag_age_ms: int
    watermark_us: int
    alignment: GroupAlignment
    def __init__(self, summary: _Optional[_Union[GroupSummary, _Mapping]] = ..., pending_splits: _Optional[int] = ..., held_splits: _Optional[int] = ..., lag: _Optional[_Union[GroupLag, _Mapping]] = ..., issued_ms: _Optional[int] = ..., rows: _Optional[int] = ..., size_bytes: _Optional[int] = ..., finished_splits: _Optional[int] = ..., expired_splits: _Optional[int] = ..., fenced: _Optional[int] = ..., rows_per_second: _Optional[float] = ..., bytes_per_second: _Optional[float] = ..., error_code: _Optional[str] = ..., lag_age_ms: _Optional[int] = ..., watermark_us: _Optional[int] = ..., alignment: _Optional[_Union[GroupAlignment, _Mapping]] = ...) -> None: ...

class TableStatus(_message.Message):
    __slots__ = ("table", "watermark_ms", "error_code", "error")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    table: str
    watermark_ms: int
    error_code: str
    error: str
    def __init__(self, table: _Optional[str] = ..., watermark_ms: _Optional[int] = ..., error_code: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class DescribeServerResponse(_message.Message):
    __slots__ = ("version", "now_ms", "uptime_ms", "tables", "groups", "streams", "catalogs")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    UPTIME_MS_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    CATALOGS_FIELD_NUMBER: _ClassVar[int]
    version: str
    now_ms: int
    uptime_ms: int
    tables: _containers.RepeatedCompositeFieldContainer[TableStatus]
    groups: _containers.RepeatedCompositeFieldContainer[GroupStatus]
    streams: _containers.RepeatedCompositeFieldContainer[StreamStatus]
    catalogs: _containers.RepeatedCompositeFieldContainer[CatalogStatus]
    def __init__(self, version: _Optional[str] = ..., now_ms: _Optional[int] = ..., uptime_ms: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[TableStatus, _Mapping]]] = ..., groups: _Optional[_Iterable[_Union[GroupStatus, _Mapping]]] = ..., streams: _Optional[_Iterable[_Union[StreamStatus, _Mapping]]] = ..., catalogs: _Optional[_Iterable[_Union[CatalogStatus, _Mapping]]] = ...) -> None: ...

class StreamStatus(_message.Message):
    __slots__ = ("table", "name", "state", "committed", "planned", "batches", "silent_ms", "watermark_us", "snapshot", "kafka", "lag", "lag_age_ms", "error_code", "alignment", "ceiling_us", "alignment_number")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    PLANNED_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    SILENT_MS_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_US_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    KAFKA_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    LAG_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ALIGNMENT_FIELD_NUMBER: _ClassVar[int]
    CEILING_US_FIELD_NUMBER: _ClassVar[int]
    ALIGNMENT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    table: str
    name: str
    state: str
    committed: Position
    planned: Position
    batches: int
    silent_ms: int
    watermark_us: int
    snapshot: SnapshotPlace
    kafka: KafkaPlace
    lag: GroupLag
    lag_age_ms: int
    error_code: str
    alignment: str
    ceiling_us: int
    alignment_number: int
    def __init__(self, table: _Optional[str] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., committed: _Optional[_Union[Position, _Mapping]] = ..., planned: _Optional[_Union[Position, _Mapping]] = ..., batches: _Optional[int] = ..., silent_ms: _Optional[int] = ..., watermark_us: _Optional[int] = ..., snapshot: _Optional[_Union[SnapshotPlace, _Mapping]] = ..., kafka: _Optional[_Union[KafkaPlace, _Mapping]] = ..., lag: _Optional[_Union[GroupLag, _Mapping]] = ..., lag_age_ms: _Optional[int] = ..., error_code: _Optional[str] = ..., alignment: _Optional[str] = ..., ceiling_us: _Optional[int] = ..., alignment_number: _Optional[int] = ...) -> None: ...

class ListTablesRequest(_message.Message):
    __slots__ = ("pattern", "catalogs", "request_id", "client_version")
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    CATALOGS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    catalogs: bool
    request_id: str
    client_version: str
    def __init__(self, pattern: _Optional[str] = ..., catalogs: _Optional[bool] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class ServedTable(_message.Message):
    __slots__ = ("table", "source", "path", "error_code", "error")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    table: str
    source: str
    path: str
    error_code: str
    error: str
    def __init__(self, table: _Optional[str] = ..., source: _Optional[str] = ..., path: _Optional[str] = ..., error_code: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class CatalogStatus(_message.Message):
    __slots__ = ("catalog", "kind", "tables", "listed_ms", "error_code", "error", "problem_count", "problems")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    LISTED_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    kind: str
    tables: int
    listed_ms: int
    error_code: str
    error: str
    problem_count: int
    problems: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, catalog: _Optional[str] = ..., kind: _Optional[str] = ..., tables: _Optional[int] = ..., listed_ms: _Optional[int] = ..., error_code: _Optional[str] = ..., error: _Optional[str] = ..., problem_count: _Optional[int] = ..., problems: _Optional[_Iterable[str]] = ...) -> None: ...

class ListTablesResponse(_message.Message):
    __slots__ = ("version", "tables", "catalogs", "problems")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    CATALOGS_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    version: int
    tables: _containers.RepeatedCompositeFieldContainer[ServedTable]
    catalogs: _containers.RepeatedCompositeFieldContainer[CatalogStatus]
    problems: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[ServedTable, _Mapping]]] = ..., catalogs: _Optional[_Iterable[_Union[CatalogStatus, _Mapping]]] = ..., problems: _Optional[_Iterable[str]] = ...) -> None: ...

class AddTableRequest(_message.Message):
    __slots__ = ("table", "path", "poll_interval_ms", "request_id", "client_version")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    POLL_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    table: str
    path: str
    poll_interval_ms: int
    request_id: str
    client_version: str
    def __init__(self, table: _Optional[str] = ..., path: _Optional[str] = ..., poll_interval_ms: _Optional[int] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class AddTableResponse(_message.Message):
    __slots__ = ("table",)
    TABLE_FIELD_NUMBER: _ClassVar[int]
    table: ServedTable
    def __init__(self, table: _Optional[_Union[ServedTable, _Mapping]] = ...) -> None: ...

class RemoveTableRequest(_message.Message):
    __slots__ = ("table", "request_id", "client_version")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    table: str
    request_id: str
    client_version: str
    def __init__(self, table: _Optional[str] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class RemoveTableResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RefreshTablesRequest(_message.Message):
    __slots__ = ("catalog", "request_id", "client_version")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    request_id: str
    client_version: str
    def __init__(self, catalog: _Optional[str] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class RefreshTablesResponse(_message.Message):
    __slots__ = ("catalogs",)
    CATALOGS_FIELD_NUMBER: _ClassVar[int]
    catalogs: _containers.RepeatedCompositeFieldContainer[CatalogStatus]
    def __init__(self, catalogs: _Optional[_Iterable[_Union[CatalogStatus, _Mapping]]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("position", "layout", "consumed", "ahead", "table_id", "kafka")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    CONSUMED_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    KAFKA_FIELD_NUMBER: _ClassVar[int]
    position: Position
    layout: int
    consumed: _containers.RepeatedScalarFieldContainer[str]
    ahead: _containers.RepeatedScalarFieldContainer[str]
    table_id: str
    kafka: KafkaPlace
    def __init__(self, position: _Optional[_Union[Position, _Mapping]] = ..., layout: _Optional[int] = ..., consumed: _Optional[_Iterable[str]] = ..., ahead: _Optional[_Iterable[str]] = ..., table_id: _Optional[str] = ..., kafka: _Optional[_Union[KafkaPlace, _Mapping]] = ...) -> None: ...

class SnapshotPlace(_message.Message):
    __slots__ = ("done", "total", "digest")
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    done: int
    total: int
    digest: str
    def __init__(self, done: _Optional[int] = ..., total: _Optional[int] = ..., digest: _Optional[str] = ...) -> None: ...

class Watermark(_message.Message):
    __slots__ = ("at_us", "high_us")
    AT_US_FIELD_NUMBER: _ClassVar[int]
    HIGH_US_FIELD_NUMBER: _ClassVar[int]
    at_us: int
    high_us: int
    def __init__(self, at_us: _Optional[int] = ..., high_us: _Optional[int] = ...) -> None: ...

class NoBatch(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CommitsBatch(_message.Message):
    __slots__ = ("after", "without")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_FIELD_NUMBER: _ClassVar[int]
    after: Position
    without: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, after: _Optional[_Union[Position, _Mapping]] = ..., without: _Optional[_Iterable[str]] = ...) -> None: ...

class SnapshotBatch(_message.Message):
    __slots__ = ("first",)
    FIRST_FIELD_NUMBER: _ClassVar[int]
    first: int
    def __init__(self, first: _Optional[int] = ...) -> None: ...

class TopicBatch(_message.Message):
    __slots__ = ("ranges",)
    RANGES_FIELD_NUMBER: _ClassVar[int]
    ranges: _containers.RepeatedCompositeFieldContainer[KafkaRange]
    def __init__(self, ranges: _Optional[_Iterable[_Union[KafkaRange, _Mapping]]] = ...) -> None: ...

class StreamPoint(_message.Message):
    __slots__ = ("progress", "snapshot", "watermark", "no_batch", "commits", "snapshot_batch", "topic", "ended")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_FIELD_NUMBER: _ClassVar[int]
    NO_BATCH_FIELD_NUMBER: _ClassVar[int]
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_BATCH_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    progress: Progress
    snapshot: SnapshotPlace
    watermark: Watermark
    no_batch: NoBatch
    commits: CommitsBatch
    snapshot_batch: SnapshotBatch
    topic: TopicBatch
    ended: bool
    def __init__(self, progress: _Optional[_Union[Progress, _Mapping]] = ..., snapshot: _Optional[_Union[SnapshotPlace, _Mapping]] = ..., watermark: _Optional[_Union[Watermark, _Mapping]] = ..., no_batch: _Optional[_Union[NoBatch, _Mapping]] = ..., commits: _Optional[_Union[CommitsBatch, _Mapping]] = ..., snapshot_batch: _Optional[_Union[SnapshotBatch, _Mapping]] = ..., topic: _Optional[_Union[TopicBatch, _Mapping]] = ..., ended: _Optional[bool] = ...) -> None: ...

class EventTimeRule(_message.Message):
    __slots__ = ("max_out_of_orderness_us", "fallback", "timezone")
    MAX_OUT_OF_ORDERNESS_US_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    max_out_of_orderness_us: int
    fallback: str
    timezone: str
    def __init__(self, max_out_of_orderness_us: _Optional[int] = ..., fallback: _Optional[str] = ..., timezone: _Optional[str] = ...) -> None: ...

class StreamScope(_message.Message):
    __slots__ = ("request", "limits", "rule", "upto", "target", "on_lost_range", "end_watermark_us", "name", "alignment")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    ON_LOST_RANGE_FIELD_NUMBER: _ClassVar[int]
    END_WATERMARK_US_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ALIGNMENT_FIELD_NUMBER: _ClassVar[int]
    request: OpenPlanRequest
    limits: RoundLimits
    rule: EventTimeRule
    upto: Position
    target: Position
    on_lost_range: str
    end_watermark_us: int
    name: str
    alignment: Alignment
    def __init__(self, request: _Optional[_Union[OpenPlanRequest, _Mapping]] = ..., limits: _Optional[_Union[RoundLimits, _Mapping]] = ..., rule: _Optional[_Union[EventTimeRule, _Mapping]] = ..., upto: _Optional[_Union[Position, _Mapping]] = ..., target: _Optional[_Union[Position, _Mapping]] = ..., on_lost_range: _Optional[str] = ..., end_watermark_us: _Optional[int] = ..., name: _Optional[str] = ..., alignment: _Optional[_Union[Alignment, _Mapping]] = ...) -> None: ...

class Alignment(_message.Message):
    __slots__ = ("set", "max_drift_us", "idle_timeout_us")
    SET_FIELD_NUMBER: _ClassVar[int]
    MAX_DRIFT_US_FIELD_NUMBER: _ClassVar[int]
    IDLE_TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    set: str
    max_drift_us: int
    idle_timeout_us: int
    def __init__(self, set: _Optional[str] = ..., max_drift_us: _Optional[int] = ..., idle_timeout_us: _Optional[int] = ...) -> None: ...

class StartSnapshot(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StartNewest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StartStreamRequest(_message.Message):
    __slots__ = ("scope", "start_snapshot", "start_newest", "start_behind", "request_id", "client_version")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    START_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    START_NEWEST_FIELD_NUMBER: _ClassVar[int]
    START_BEHIND_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    scope: StreamScope
    start_snapshot: StartSnapshot
    start_newest: StartNewest
    start_behind: Position
    request_id: str
    client_version: str
    def __init__(self, scope: _Optional[_Union[StreamScope, _Mapping]] = ..., start_snapshot: _Optional[_Union[StartSnapshot, _Mapping]] = ..., start_newest: _Optional[_Union[StartNewest, _Mapping]] = ..., start_behind: _Optional[_Union[Position, _Mapping]] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class StartStreamResponse(_message.Message):
    __slots__ = ("point",)
    POINT_FIELD_NUMBER: _ClassVar[int]
    point: StreamPoint
    def __init__(self, point: _Optional[_Union[StreamPoint, _Mapping]] = ...) -> None: ...

class NextBatchRequest(_message.Message):
    __slots__ = ("scope", "point", "request_id", "client_version")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    POINT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    scope: StreamScope
    point: StreamPoint
    request_id: str
    client_version: str
    def __init__(self, scope: _Optional[_Union[StreamScope, _Mapping]] = ..., point: _Optional[_Union[StreamPoint, _Mapping]] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class NextBatchResponse(_message.Message):
    __slots__ = ("point", "schema_json", "lost", "held")
    POINT_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    point: StreamPoint
    schema_json: str
    lost: str
    held: bool
    def __init__(self, point: _Optional[_Union[StreamPoint, _Mapping]] = ..., schema_json: _Optional[str] = ..., lost: _Optional[str] = ..., held: _Optional[bool] = ...) -> None: ...

class Hybrid(_message.Message):
    __slots__ = ("mode", "topic", "value_format", "rules", "loss_allowed")
    MODE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    VALUE_FORMAT_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    LOSS_ALLOWED_FIELD_NUMBER: _ClassVar[int]
    mode: str
    topic: str
    value_format: str
    rules: HandOverRules
    loss_allowed: bool
    def __init__(self, mode: _Optional[str] = ..., topic: _Optional[str] = ..., value_format: _Optional[str] = ..., rules: _Optional[_Union[HandOverRules, _Mapping]] = ..., loss_allowed: _Optional[bool] = ...) -> None: ...

class HandOverRules(_message.Message):
    __slots__ = ("key", "key_format", "checkpoints", "others_elsewhere", "group", "timestamp_ms", "starting_offsets")
    KEY_FIELD_NUMBER: _ClassVar[int]
    KEY_FORMAT_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    OTHERS_ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    STARTING_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    key: str
    key_format: str
    checkpoints: _containers.RepeatedCompositeFieldContainer[QueryCheckpoint]
    others_elsewhere: bool
    group: str
    timestamp_ms: int
    starting_offsets: str
    def __init__(self, key: _Optional[str] = ..., key_format: _Optional[str] = ..., checkpoints: _Optional[_Iterable[_Union[QueryCheckpoint, _Mapping]]] = ..., others_elsewhere: _Optional[bool] = ..., group: _Optional[str] = ..., timestamp_ms: _Optional[int] = ..., starting_offsets: _Optional[str] = ...) -> None: ...

class QueryCheckpoint(_message.Message):
    __slots__ = ("writer", "folder")
    WRITER_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    writer: str
    folder: str
    def __init__(self, writer: _Optional[str] = ..., folder: _Optional[str] = ...) -> None: ...

class PartitionNumber(_message.Message):
    __slots__ = ("partition", "number")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    partition: int
    number: int
    def __init__(self, partition: _Optional[int] = ..., number: _Optional[int] = ...) -> None: ...

class PartitionPlace(_message.Message):
    __slots__ = ("partition", "next", "high_us", "behind")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    HIGH_US_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    partition: int
    next: int
    high_us: int
    behind: int
    def __init__(self, partition: _Optional[int] = ..., next: _Optional[int] = ..., high_us: _Optional[int] = ..., behind: _Optional[int] = ...) -> None: ...

class KafkaPlace(_message.Message):
    __slots__ = ("phase", "topic", "topic_id", "instant", "lake", "starts", "epochs", "places")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANT_FIELD_NUMBER: _ClassVar[int]
    LAKE_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    phase: str
    topic: str
    topic_id: str
    instant: str
    lake: Position
    starts: _containers.RepeatedCompositeFieldContainer[PartitionNumber]
    epochs: _containers.RepeatedCompositeFieldContainer[PartitionNumber]
    places: _containers.RepeatedCompositeFieldContainer[PartitionPlace]
    def __init__(self, phase: _Optional[str] = ..., topic: _Optional[str] = ..., topic_id: _Optional[str] = ..., instant: _Optional[str] = ..., lake: _Optional[_Union[Position, _Mapping]] = ..., starts: _Optional[_Iterable[_Union[PartitionNumber, _Mapping]]] = ..., epochs: _Optional[_Iterable[_Union[PartitionNumber, _Mapping]]] = ..., places: _Optional[_Iterable[_Union[PartitionPlace, _Mapping]]] = ...) -> None: ...

class KafkaRange(_message.Message):
    __slots__ = ("topic", "topic_id", "partition", "first", "end")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    topic: str
    topic_id: str
    partition: int
    first: int
    end: int
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., first: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class TopicRecords(_message.Message):
    __slots__ = ("mode", "value_format", "key_fields", "loss_allowed")
    MODE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FORMAT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELDS_FIELD_NUMBER: _ClassVar[int]
    LOSS_ALLOWED_FIELD_NUMBER: _ClassVar[int]
    mode: str
    value_format: str
    key_fields: _containers.RepeatedScalarFieldContainer[str]
    loss_allowed: bool
    def __init__(self, mode: _Optional[str] = ..., value_format: _Optional[str] = ..., key_fields: _Optional[_Iterable[str]] = ..., loss_allowed: _Optional[bool] = ...) -> None: ...

class FileRef(_message.Message):
    __slots__ = ("path", "size_bytes", "writes", "source")
    PATH_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    WRITES_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    path: str
    size_bytes: int
    writes: LogWrites
    source: FileRef
    def __init__(self, path: _Optional[str] = ..., size_bytes: _Optional[int] = ..., writes: _Optional[_Union[LogWrites, _Mapping]] = ..., source: _Optional[_Union[FileRef, _Mapping]] = ...) -> None: ...

class LogWrites(_message.Message):
    __slots__ = ("writes",)
    WRITES_FIELD_NUMBER: _ClassVar[int]
    writes: _containers.RepeatedCompositeFieldContainer[LogWrite]
    def __init__(self, writes: _Optional[_Iterable[_Union[LogWrite, _Mapping]]] = ...) -> None: ...

class LogWrite(_message.Message):
    __slots__ = ("instant", "data_rows", "delete_rows")
    INSTANT_FIELD_NUMBER: _ClassVar[int]
    DATA_ROWS_FIELD_NUMBER: _ClassVar[int]
    DELETE_ROWS_FIELD_NUMBER: _ClassVar[int]
    instant: str
    data_rows: int
    delete_rows: int
    def __init__(self, instant: _Optional[str] = ..., data_rows: _Optional[int] = ..., delete_rows: _Optional[int] = ...) -> None: ...

class RowGroupRun(_message.Message):
    __slots__ = ("first", "end", "size_bytes")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    first: int
    end: int
    size_bytes: int
    def __init__(self, first: _Optional[int] = ..., end: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class SliceFiles(_message.Message):
    __slots__ = ("base", "base_instant", "logs")
    BASE_FIELD_NUMBER: _ClassVar[int]
    BASE_INSTANT_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    base: FileRef
    base_instant: str
    logs: _containers.RepeatedCompositeFieldContainer[FileRef]
    def __init__(self, base: _Optional[_Union[FileRef, _Mapping]] = ..., base_instant: _Optional[str] = ..., logs: _Optional[_Iterable[_Union[FileRef, _Mapping]]] = ...) -> None: ...

class LoggedImages(_message.Message):
    __slots__ = ("files", "before", "after", "key_fields")
    FILES_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELDS_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[FileRef]
    before: SliceFiles
    after: SliceFiles
    key_fields: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, files: _Optional[_Iterable[_Union[FileRef, _Mapping]]] = ..., before: _Optional[_Union[SliceFiles, _Mapping]] = ..., after: _Optional[_Union[SliceFiles, _Mapping]] = ..., key_fields: _Optional[_Iterable[str]] = ...) -> None: ...

class ComparedStates(_message.Message):
    __slots__ = ("before", "after")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    before: SliceFiles
    after: SliceFiles
    def __init__(self, before: _Optional[_Union[SliceFiles, _Mapping]] = ..., after: _Optional[_Union[SliceFiles, _Mapping]] = ...) -> None: ...

class StoredKinds(_message.Message):
    __slots__ = ("files",)
    FILES_FIELD_NUMBER: _ClassVar[int]
    files: SliceFiles
    def __init__(self, files: _Optional[_Union[SliceFiles, _Mapping]] = ...) -> None: ...

class ChangeStep(_message.Message):
    __slots__ = ("instant", "order_key", "place", "logged", "compared", "stored")
    INSTANT_FIELD_NUMBER: _ClassVar[int]
    ORDER_KEY_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    LOGGED_FIELD_NUMBER: _ClassVar[int]
    COMPARED_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    instant: str
    order_key: str
    place: int
    logged: LoggedImages
    compared: ComparedStates
    stored: StoredKinds
    def __init__(self, instant: _Optional[str] = ..., order_key: _Optional[str] = ..., place: _Optional[int] = ..., logged: _Optional[_Union[LoggedImages, _Mapping]] = ..., compared: _Optional[_Union[ComparedStates, _Mapping]] = ..., stored: _Optional[_Union[StoredKinds, _Mapping]] = ...) -> None: ...

class GroupChanges(_message.Message):
    __slots__ = ("steps",)
    STEPS_FIELD_NUMBER: _ClassVar[int]
    steps: _containers.RepeatedCompositeFieldContainer[ChangeStep]
    def __init__(self, steps: _Optional[_Iterable[_Union[ChangeStep, _Mapping]]] = ...) -> None: ...

class EventTimeBounds(_message.Message):
    __slots__ = ("min_us", "max_us")
    MIN_US_FIELD_NUMBER: _ClassVar[int]
    MAX_US_FIELD_NUMBER: _ClassVar[int]
    min_us: int
    max_us: int
    def __init__(self, min_us: _Optional[int] = ..., max_us: _Optional[int] = ...) -> None: ...

class NoEventTimes(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PartitionValue(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: str
    def __init__(self, value: _Optional[str] = ...) -> None: ...

class Split(_message.Message):
    __slots__ = ("format_version", "split_id", "partition", "partition_values", "file_group", "order_key", "base", "base_instant", "row_groups", "logs", "event_time", "changes", "ancestry", "left_out", "no_event_times", "kafka")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    SPLIT_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PARTITION_VALUES_FIELD_NUMBER: _ClassVar[int]
    FILE_GROUP_FIELD_NUMBER: _ClassVar[int]
    ORDER_KEY_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    BASE_INSTANT_FIELD_NUMBER: _ClassVar[int]
    ROW_GROUPS_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    ANCESTRY_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    NO_EVENT_TIMES_FIELD_NUMBER: _ClassVar[int]
    KAFKA_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    split_id: str
    partition: str
    partition_values: _containers.RepeatedCompositeFieldContainer[PartitionValue]
    file_group: str
    order_key: str
    base: FileRef
    base_instant: str
    row_groups: RowGroupRun
    logs: _containers.RepeatedCompositeFieldContainer[FileRef]
    event_time: EventTimeBounds
    changes: GroupChanges
    ancestry: Ancestry
    left_out: LeftOut
    no_event_times: NoEventTimes
    kafka: KafkaRange
    def __init__(self, format_version: _Optional[int] = ..., split_id: _Optional[str] = ..., partition: _Optional[str] = ..., partition_values: _Optional[_Iterable[_Union[PartitionValue, _Mapping]]] = ..., file_group: _Optional[str] = ..., order_key: _Optional[str] = ..., base: _Optional[_Union[FileRef, _Mapping]] = ..., base_instant: _Optional[str] = ..., row_groups: _Optional[_Union[RowGroupRun, _Mapping]] = ..., logs: _Optional[_Iterable[_Union[FileRef, _Mapping]]] = ..., event_time: _Optional[_Union[EventTimeBounds, _Mapping]] = ..., changes: _Optional[_Union[GroupChanges, _Mapping]] = ..., ancestry: _Optional[_Union[Ancestry, _Mapping]] = ..., left_out: _Optional[_Union[LeftOut, _Mapping]] = ..., no_event_times: _Optional[_Union[NoEventTimes, _Mapping]] = ..., kafka: _Optional[_Union[KafkaRange, _Mapping]] = ...) -> None: ...

class LeftOut(_message.Message):
    __slots__ = ("rows", "some_rows", "blocks")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SOME_ROWS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedScalarFieldContainer[str]
    some_rows: _containers.RepeatedScalarFieldContainer[str]
    blocks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, rows: _Optional[_Iterable[str]] = ..., some_rows: _Optional[_Iterable[str]] = ..., blocks: _Optional[_Iterable[str]] = ...) -> None: ...

class Ancestry(_message.Message):
    __slots__ = ("inside", "outside", "origins")
    INSIDE_FIELD_NUMBER: _ClassVar[int]
    OUTSIDE_FIELD_NUMBER: _ClassVar[int]
    ORIGINS_FIELD_NUMBER: _ClassVar[int]
    inside: _containers.RepeatedScalarFieldContainer[str]
    outside: _containers.RepeatedScalarFieldContainer[str]
    origins: _containers.RepeatedCompositeFieldContainer[Origin]
    def __init__(self, inside: _Optional[_Iterable[str]] = ..., outside: _Optional[_Iterable[str]] = ..., origins: _Optional[_Iterable[_Union[Origin, _Mapping]]] = ...) -> None: ...

class Origin(_message.Message):
    __slots__ = ("service", "slices")
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    service: str
    slices: _containers.RepeatedCompositeFieldContainer[Split]
    def __init__(self, service: _Optional[str] = ..., slices: _Optional[_Iterable[_Union[Split, _Mapping]]] = ...) -> None: ...

class CommitTimeOrdering(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EventTimeOrdering(_message.Message):
    __slots__ = ("ordering_fields", "dotted_numbers", "deletes_win")
    ORDERING_FIELDS_FIELD_NUMBER: _ClassVar[int]
    DOTTED_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    DELETES_WIN_FIELD_NUMBER: _ClassVar[int]
    ordering_fields: _containers.RepeatedScalarFieldContainer[str]
    dotted_numbers: bool
    deletes_win: bool
    def __init__(self, ordering_fields: _Optional[_Iterable[str]] = ..., dotted_numbers: _Optional[bool] = ..., deletes_win: _Optional[bool] = ...) -> None: ...

class DeleteMarker(_message.Message):
    __slots__ = ("field", "value")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    field: str
    value: str
    def __init__(self, field: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class FillNulls(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FillDefaults(_message.Message):
    __slots__ = ("by_identity",)
    BY_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    by_identity: bool
    def __init__(self, by_identity: _Optional[bool] = ...) -> None: ...

class FillMarked(_message.Message):
    __slots__ = ("marker", "from_newer")
    MARKER_FIELD_NUMBER: _ClassVar[int]
    FROM_NEWER_FIELD_NUMBER: _ClassVar[int]
    marker: str
    from_newer: bool
    def __init__(self, marker: _Optional[str] = ..., from_newer: _Optional[bool] = ...) -> None: ...

class VisibleInstants(_message.Message):
    __slots__ = ("members", "archived_before", "not_after")
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    NOT_AFTER_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedScalarFieldContainer[str]
    archived_before: str
    not_after: str
    def __init__(self, members: _Optional[_Iterable[str]] = ..., archived_before: _Optional[str] = ..., not_after: _Optional[str] = ...) -> None: ...

class RowsOf(_message.Message):
    __slots__ = ("instants", "log_compactions")
    INSTANTS_FIELD_NUMBER: _ClassVar[int]
    LOG_COMPACTIONS_FIELD_NUMBER: _ClassVar[int]
    instants: _containers.RepeatedScalarFieldContainer[str]
    log_compactions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, instants: _Optional[_Iterable[str]] = ..., log_compactions: _Optional[_Iterable[str]] = ...) -> None: ...

class ChangesOf(_message.Message):
    __slots__ = ("format", "instants")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    INSTANTS_FIELD_NUMBER: _ClassVar[int]
    format: str
    instants: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, format: _Optional[str] = ..., instants: _Optional[_Iterable[str]] = ...) -> None: ...

class CustomMerge(_message.Message):
    __slots__ = ("name", "of_payload", "ordering_fields")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OF_PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    ORDERING_FIELDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    of_payload: bool
    ordering_fields: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., of_payload: _Optional[bool] = ..., ordering_fields: _Optional[_Iterable[str]] = ...) -> None: ...

class Scan(_message.Message):
    __slots__ = ("format_version", "table", "base_path", "table_version", "schema_json", "columns", "where", "commit_time", "event_time", "custom", "visible", "rows", "partition_fields", "delete_marker", "fill_nulls", "fill_defaults", "fill_marked", "skip_corrupt", "key_fields", "schema_history", "changes", "keys_may_be_named", "topic", "completion_times", "bootstrap_base_path")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    BASE_PATH_FIELD_NUMBER: _ClassVar[int]
    TABLE_VERSION_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_TIME_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_FIELD_NUMBER: _ClassVar[int]
    VISIBLE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELDS_FIELD_NUMBER: _ClassVar[int]
    DELETE_MARKER_FIELD_NUMBER: _ClassVar[int]
    FILL_NULLS_FIELD_NUMBER: _ClassVar[int]
    FILL_DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    FILL_MARKED_FIELD_NUMBER: _ClassVar[int]
    SKIP_CORRUPT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELDS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_HISTORY_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    KEYS_MAY_BE_NAMED_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TIMES_FIELD_NUMBER: _ClassVar[int]
    BOOTSTRAP_BASE_PATH_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    table: str
    base_path: str
    table_version: int
    schema_json: str
    columns: _containers.RepeatedScalarFieldContainer[str]
    where: str
    commit_time: CommitTimeOrdering
    event_time: EventTimeOrdering
    custom: CustomMerge
    visible: VisibleInstants
    rows: RowsOf
    partition_fields: _containers.RepeatedScalarFieldContainer[str]
    delete_marker: DeleteMarker
    fill_nulls: FillNulls
    fill_defaults: FillDefaults
    fill_marked: FillMarked
    skip_corrupt: bool
    key_fields: _containers.RepeatedScalarFieldContainer[str]
    schema_history: str
    changes: ChangesOf
    keys_may_be_named: bool
    topic: TopicRecords
    completion_times: CompletionTimes
    bootstrap_base_path: str
    def __init__(self, format_version: _Optional[int] = ..., table: _Optional[str] = ..., base_path: _Optional[str] = ..., table_version: _Optional[int] = ..., schema_json: _Optional[str] = ..., columns: _Optional[_Iterable[str]] = ..., where: _Optional[str] = ..., commit_time: _Optional[_Union[CommitTimeOrdering, _Mapping]] = ..., event_time: _Optional[_Union[EventTimeOrdering, _Mapping]] = ..., custom: _Optional[_Union[CustomMerge, _Mapping]] = ..., visible: _Optional[_Union[VisibleInstants, _Mapping]] = ..., rows: _Optional[_Union[RowsOf, _Mapping]] = ..., partition_fields: _Optional[_Iterable[str]] = ..., delete_marker: _Optional[_Union[DeleteMarker, _Mapping]] = ..., fill_nulls: _Optional[_Union[FillNulls, _Mapping]] = ..., fill_defaults: _Optional[_Union[FillDefaults, _Mapping]] = ..., fill_marked: _Optional[_Union[FillMarked, _Mapping]] = ..., skip_corrupt: _Optional[bool] = ..., key_fields: _Optional[_Iterable[str]] = ..., schema_history: _Optional[str] = ..., changes: _Optional[_Union[ChangesOf, _Mapping]] = ..., keys_may_be_named: _Optional[bool] = ..., topic: _Optional[_Union[TopicRecords, _Mapping]] = ..., completion_times: _Optional[_Union[CompletionTimes, _Mapping]] = ..., bootstrap_base_path: _Optional[str] = ...) -> None: ...

class CompletionTimes(_message.Message):
    __slots__ = ("instants", "completed_ms")
    INSTANTS_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_MS_FIELD_NUMBER: _ClassVar[int]
    instants: _containers.RepeatedScalarFieldContainer[int]
    completed_ms: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, instants: _Optional[_Iterable[int]] = ..., completed_ms: _Optional[_Iterable[int]] = ...) -> None: ...

class Plan(_message.Message):
    __slots__ = ("format_version", "scan", "after", "upto", "splits")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    SCAN_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    scan: Scan
    after: Position
    upto: Position
    splits: _containers.RepeatedCompositeFieldContainer[Split]
    def __init__(self, format_version: _Optional[int] = ..., scan: _Optional[_Union[Scan, _Mapping]] = ..., after: _Optional[_Union[Position, _Mapping]] = ..., upto: _Optional[_Union[Position, _Mapping]] = ..., splits: _Optional[_Iterable[_Union[Split, _Mapping]]] = ...) -> None: ...

class WriteId(_message.Message):
    __slots__ = ("table", "owner", "epoch")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    table: str
    owner: str
    epoch: int
    def __init__(self, table: _Optional[str] = ..., owner: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class TouchedGroups(_message.Message):
    __slots__ = ("partitions", "keys_of_table")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    KEYS_OF_TABLE_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[TouchedPartition]
    keys_of_table: bool
    def __init__(self, partitions: _Optional[_Iterable[_Union[TouchedPartition, _Mapping]]] = ..., keys_of_table: _Optional[bool] = ...) -> None: ...

class TouchedPartition(_message.Message):
    __slots__ = ("partition", "file_ids", "inserted_into")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FILE_IDS_FIELD_NUMBER: _ClassVar[int]
    INSERTED_INTO_FIELD_NUMBER: _ClassVar[int]
    partition: str
    file_ids: _containers.RepeatedScalarFieldContainer[str]
    inserted_into: bool
    def __init__(self, partition: _Optional[str] = ..., file_ids: _Optional[_Iterable[str]] = ..., inserted_into: _Optional[bool] = ...) -> None: ...

class BeginWriteRequest(_message.Message):
    __slots__ = ("write", "action", "requested", "timeline_timezone", "keeps_metadata", "by_bucket", "request_id", "client_version")
    WRITE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_FIELD_NUMBER: _ClassVar[int]
    TIMELINE_TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    KEEPS_METADATA_FIELD_NUMBER: _ClassVar[int]
    BY_BUCKET_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    write: WriteId
    action: str
    requested: bytes
    timeline_timezone: str
    keeps_metadata: bool
    by_bucket: bool
    request_id: str
    client_version: str
    def __init__(self, write: _Optional[_Union[WriteId, _Mapping]] = ..., action: _Optional[str] = ..., requested: _Optional[bytes] = ..., timeline_timezone: _Optional[str] = ..., keeps_metadata: _Optional[bool] = ..., by_bucket: _Optional[bool] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class BeginWriteResponse(_message.Message):
    __slots__ = ("instant", "newest_completed", "pending", "lease_ms")
    INSTANT_FIELD_NUMBER: _ClassVar[int]
    NEWEST_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    instant: str
    newest_completed: str
    pending: _containers.RepeatedScalarFieldContainer[str]
    lease_ms: int
    def __init__(self, instant: _Optional[str] = ..., newest_completed: _Optional[str] = ..., pending: _Optional[_Iterable[str]] = ..., lease_ms: _Optional[int] = ...) -> None: ...

class LeaseGroupsRequest(_message.Message):
    __slots__ = ("write", "touched", "request_id", "client_version")
    WRITE_FIELD_NUMBER: _ClassVar[int]
    TOUCHED_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    write: WriteId
    touched: TouchedGroups
    request_id: str
    client_version: str
    def __init__(self, write: _Optional[_Union[WriteId, _Mapping]] = ..., touched: _Optional[_Union[TouchedGroups, _Mapping]] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class LeaseGroupsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RenewWriteRequest(_message.Message):
    __slots__ = ("write", "files", "size_bytes", "request_id", "client_version")
    WRITE_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    write: WriteId
    files: int
    size_bytes: int
    request_id: str
    client_version: str
    def __init__(self, write: _Optional[_Union[WriteId, _Mapping]] = ..., files: _Optional[int] = ..., size_bytes: _Optional[int] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class RenewWriteResponse(_message.Message):
    __slots__ = ("lease_ms",)
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    lease_ms: int
    def __init__(self, lease_ms: _Optional[int] = ...) -> None: ...

class CommitWriteRequest(_message.Message):
    __slots__ = ("write", "metadata", "touched", "writes_base_files", "request_id", "client_version")
    WRITE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    TOUCHED_FIELD_NUMBER: _ClassVar[int]
    WRITES_BASE_FILES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    write: WriteId
    metadata: bytes
    touched: TouchedGroups
    writes_base_files: bool
    request_id: str
    client_version: str
    def __init__(self, write: _Optional[_Union[WriteId, _Mapping]] = ..., metadata: _Optional[bytes] = ..., touched: _Optional[_Union[TouchedGroups, _Mapping]] = ..., writes_base_files: _Optional[bool] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class CommitWriteResponse(_message.Message):
    __slots__ = ("completion_time",)
    COMPLETION_TIME_FIELD_NUMBER: _ClassVar[int]
    completion_time: str
    def __init__(self, completion_time: _Optional[str] = ...) -> None: ...

class AbortWriteRequest(_message.Message):
    __slots__ = ("write", "request_id", "client_version")
    WRITE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    write: WriteId
    request_id: str
    client_version: str
    def __init__(self, write: _Optional[_Union[WriteId, _Mapping]] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class AbortWriteResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListWritesRequest(_message.Message):
    __slots__ = ("table", "request_id", "client_version")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    table: str
    request_id: str
    client_version: str
    def __init__(self, table: _Optional[str] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class WriteSummary(_message.Message):
    __slots__ = ("write", "state", "instant", "groups", "files", "size_bytes", "lease_left_ms")
    WRITE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    INSTANT_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LEASE_LEFT_MS_FIELD_NUMBER: _ClassVar[int]
    write: WriteId
    state: str
    instant: str
    groups: int
    files: int
    size_bytes: int
    lease_left_ms: int
    def __init__(self, write: _Optional[_Union[WriteId, _Mapping]] = ..., state: _Optional[str] = ..., instant: _Optional[str] = ..., groups: _Optional[int] = ..., files: _Optional[int] = ..., size_bytes: _Optional[int] = ..., lease_left_ms: _Optional[int] = ...) -> None: ...

class ListWritesResponse(_message.Message):
    __slots__ = ("writes",)
    WRITES_FIELD_NUMBER: _ClassVar[int]
    writes: _containers.RepeatedCompositeFieldContainer[WriteSummary]
    def __init__(self, writes: _Optional[_Iterable[_Union[WriteSummary, _Mapping]]] = ...) -> None: ...

class ServiceSplitId(_message.Message):
    __slots__ = ("table", "service", "instant")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    INSTANT_FIELD_NUMBER: _ClassVar[int]
    table: str
    service: str
    instant: str
    def __init__(self, table: _Optional[str] = ..., service: _Optional[str] = ..., instant: _Optional[str] = ...) -> None: ...

class ServiceOptions(_message.Message):
    __slots__ = ("plan_bytes", "sort_by", "sorts", "index", "commits", "hours", "file_versions", "keep_min", "keep_max", "hold_at_most", "timeline_timezone", "compact_after")
    PLAN_BYTES_FIELD_NUMBER: _ClassVar[int]
    SORT_BY_FIELD_NUMBER: _ClassVar[int]
    SORTS_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    HOURS_FIELD_NUMBER: _ClassVar[int]
    FILE_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    KEEP_MIN_FIELD_NUMBER: _ClassVar[int]
    KEEP_MAX_FIELD_NUMBER: _ClassVar[int]
    HOLD_AT_MOST_FIELD_NUMBER: _ClassVar[int]
    TIMELINE_TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    COMPACT_AFTER_FIELD_NUMBER: _ClassVar[int]
    plan_bytes: int
    sort_by: _containers.RepeatedScalarFieldContainer[str]
    sorts: bool
    index: str
    commits: int
    hours: int
    file_versions: int
    keep_min: int
    keep_max: int
    hold_at_most: str
    timeline_timezone: str
    compact_after: int
    def __init__(self, plan_bytes: _Optional[int] = ..., sort_by: _Optional[_Iterable[str]] = ..., sorts: _Optional[bool] = ..., index: _Optional[str] = ..., commits: _Optional[int] = ..., hours: _Optional[int] = ..., file_versions: _Optional[int] = ..., keep_min: _Optional[int] = ..., keep_max: _Optional[int] = ..., hold_at_most: _Optional[str] = ..., timeline_timezone: _Optional[str] = ..., compact_after: _Optional[int] = ...) -> None: ...

class ServiceSplit(_message.Message):
    __slots__ = ("id", "attempt", "lease_ms", "options", "readers", "avoided")
    ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    AVOIDED_FIELD_NUMBER: _ClassVar[int]
    id: ServiceSplitId
    attempt: int
    lease_ms: int
    options: ServiceOptions
    readers: _containers.RepeatedScalarFieldContainer[str]
    avoided: TouchedGroups
    def __init__(self, id: _Optional[_Union[ServiceSplitId, _Mapping]] = ..., attempt: _Optional[int] = ..., lease_ms: _Optional[int] = ..., options: _Optional[_Union[ServiceOptions, _Mapping]] = ..., readers: _Optional[_Iterable[str]] = ..., avoided: _Optional[_Union[TouchedGroups, _Mapping]] = ...) -> None: ...

class RequestServiceSplitRequest(_message.Message):
    __slots__ = ("member", "table", "services", "looks_first", "request_id", "client_version")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    LOOKS_FIRST_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    member: str
    table: str
    services: _containers.RepeatedScalarFieldContainer[str]
    looks_first: bool
    request_id: str
    client_version: str
    def __init__(self, member: _Optional[str] = ..., table: _Optional[str] = ..., services: _Optional[_Iterable[str]] = ..., looks_first: _Optional[bool] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class RequestServiceSplitResponse(_message.Message):
    __slots__ = ("split", "retry_ms", "is_idle")
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    RETRY_MS_FIELD_NUMBER: _ClassVar[int]
    IS_IDLE_FIELD_NUMBER: _ClassVar[int]
    split: ServiceSplit
    retry_ms: int
    is_idle: bool
    def __init__(self, split: _Optional[_Union[ServiceSplit, _Mapping]] = ..., retry_ms: _Optional[int] = ..., is_idle: _Optional[bool] = ...) -> None: ...

class RenewServiceSplitRequest(_message.Message):
    __slots__ = ("split", "member", "attempt", "request_id", "client_version")
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    split: ServiceSplitId
    member: str
    attempt: int
    request_id: str
    client_version: str
    def __init__(self, split: _Optional[_Union[ServiceSplitId, _Mapping]] = ..., member: _Optional[str] = ..., attempt: _Optional[int] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class RenewServiceSplitResponse(_message.Message):
    __slots__ = ("lease_ms",)
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    lease_ms: int
    def __init__(self, lease_ms: _Optional[int] = ...) -> None: ...

class FinishServiceSplitRequest(_message.Message):
    __slots__ = ("split", "member", "attempt", "code", "text", "request_id", "client_version")
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    split: ServiceSplitId
    member: str
    attempt: int
    code: str
    text: str
    request_id: str
    client_version: str
    def __init__(self, split: _Optional[_Union[ServiceSplitId, _Mapping]] = ..., member: _Optional[str] = ..., attempt: _Optional[int] = ..., code: _Optional[str] = ..., text: _Optional[str] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class FinishServiceSplitResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListServiceSplitsRequest(_message.Message):
    __slots__ = ("table", "request_id", "client_version")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    table: str
    request_id: str
    client_version: str
    def __init__(self, table: _Optional[str] = ..., request_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class ServiceSplitSummary(_message.Message):
    __slots__ = ("split", "state", "member", "age_ms", "failures", "error")
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    split: ServiceSplitId
    state: str
    member: str
    age_ms: int
    failures: int
    error: str
    def __init__(self, split: _Optional[_Union[ServiceSplitId, _Mapping]] = ..., state: _Optional[str] = ..., member: _Optional[str] = ..., age_ms: _Optional[int] = ..., failures: _Optional[int] = ..., error: _Optional[str] = ...) -> None: ...

class ListServiceSplitsResponse(_message.Message):
    __slots__ = ("splits",)
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    splits: _containers.RepeatedCompositeFieldContainer[ServiceSplitSummary]
    def __init__(self, splits: _Optional[_Iterable[_Union[ServiceSplitSummary, _Mapping]]] = ...) -> None: ...

"""What a table's settings mean for merging, and which settings no query can answer. Pure.

Sources: Hudi `HoodieTableConfig.inferMergingConfigsForPreV9Table`, RFC-97 (payload classes folded into merge modes).
"""

from __future__ import annotations

from typing import Final, NoReturn

from penstock.proto.errors import UnsupportedFeature
from penstock.proto.splits import CommitTimeOrdering, EventTimeOrdering, MergeMode
from penstock.table.properties import TableProperties
from penstock.table.storage import shown_uri

_EVENT_TIME: Final = "EVENT_TIME_ORDERING"
_COMMIT_TIME: Final = "COMMIT_TIME_ORDERING"
_EVENT_STRATEGY: Final = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
_COMMIT_STRATEGY: Final = "ce9acb64-bde0-424c-9b91-f6ebba25356d"
_PAYLOAD_STRATEGY: Final = "00000000-0000-0000-0000-000000000000"
_PAYLOADS: Final = {
    "org.apache.hudi.common.model.DefaultHoodieRecordPayload": _EVENT_TIME,
    "org.apache.hudi.common.model.EventTimeAvroPayload": _EVENT_TIME,
    "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload": _COMMIT_TIME,
}
_MERGE_PROPERTY: Final = "hoodie.record.merge.property."
_DELETE_MARKERS: Final = ("hoodie.payload.delete.field", "hoodie.payload.delete.marker")


def merge_mode(properties: TableProperties) -> MergeMode:
    """How records of one key merge in this table.

    EventTimeOrdering(()) is event time without an ordering field: every record has the same ordering value, so the
    newer wins. A copy-on-write table never merges: any mode is returned, nothing is refused. UnsupportedFeature,
    naming the setting, for custom mergers, payload classes other than Hudi's three plain ones, partial updates,
    custom delete markers, more than one ordering field.
    """
    if not properties.is_merge_on_read:
        return EventTimeOrdering(properties.ordering_fields) if properties.ordering_fields else CommitTimeOrdering()
    _refuse_partial_and_markers(properties)
    mode = _stored_mode(properties) if properties.version >= 9 else _inferred_mode(properties)
    if mode == _COMMIT_TIME:
        return CommitTimeOrdering()
    if len(properties.ordering_fields) > 1:
        _refuse(properties, f"more than one ordering field ({', '.join(properties.ordering_fields)})")
    return EventTimeOrdering(properties.ordering_fields)


def _refuse_partial_and_markers(properties: TableProperties) -> None:
    if properties.partial_update_mode:
        _refuse(properties, f"partial update mode {properties.partial_update_mode} (hoodie.table.partial.update.mode)")
    for key in sorted(properties.raw):
        if key.startswith(_MERGE_PROPERTY) or key in _DELETE_MARKERS:
            _refuse(properties, f"merge property {key}={properties.raw[key][:60]} (custom delete markers and the like)")


def _stored_mode(properties: TableProperties) -> str:
    """The mode a version 9 table stores; the legacy payload class says nothing about it after an upgrade."""
    if properties.merge_mode not in (_EVENT_TIME, _COMMIT_TIME):
        _refuse(
            properties,
            f"record merge mode {properties.merge_mode or '(none)'} with strategy "
            f"{properties.merge_strategy or '(none)'} and payload {properties.payload_class or '(none)'}",
        )
    _refuse_strategy(properties)
    payload = _full_name(properties.payload_class)
    if payload and payload not in _PAYLOADS:
        _refuse(properties, f"payload class {properties.payload_class}")
    return properties.merge_mode


def _inferred_mode(properties: TableProperties) -> str:
    """The mode of a table below version 9: as stored by version 8, else what the payload class stands for.

    Without payload class Hudi orders by event time if there is an ordering field.
    """
    if properties.version >= 8 and properties.merge_mode:
        return _stored_mode(properties)
    _refuse_strategy(properties)
    payload = _full_name(properties.payload_class)
    if not payload:
        return _EVENT_TIME if properties.ordering_fields else _COMMIT_TIME
    if payload not in _PAYLOADS:
        _refuse(properties, f"payload class {properties.payload_class}")
    return _PAYLOADS[payload]


def _refuse_strategy(properties: TableProperties) -> None:
    """Hudi's own strategies say no more than mode or payload do; any other id is a merger of the user's."""
    strategy = properties.merge_strategy.lower()
    if strategy not in ("", _EVENT_STRATEGY, _COMMIT_STRATEGY, _PAYLOAD_STRATEGY):
        _refuse(properties, f"record merge strategy {properties.merge_strategy} (a custom record merger)")


def _full_name(payload_class: str) -> str:
    """The class name under Hudi's present package (`com.uber.hoodie` was its first)."""
    return payload_class.replace("com.uber.hoodie", "org.apache.hudi", 1)


def refuse_unsupported(properties: TableProperties) -> None:
    """UnsupportedFeature, naming the setting, if no query can read the table."""
    raw = properties.raw
    if properties.base_file_format != "PARQUET":
        _refuse(properties, f"base file format {properties.base_file_format} (hoodie.table.base.file.format)")
    if raw.get("hoodie.table.multiple.base.file.formats.enable", "").strip().lower() == "true":
        _refuse(properties, "several base file formats (hoodie.table.multiple.base.file.formats.enable=true)")
    if properties.log_file_format != "HOODIE_LOG":
        _refuse(properties, f"log file format {properties.log_file_format} (hoodie.table.log.file.format)")
    if raw.get("hoodie.bootstrap.base.path", "").strip():
        _refuse(properties, "bootstrapped table (hoodie.bootstrap.base.path is set)")
    if raw.get("hoodie.table.format", "native").strip().lower() not in ("", "native"):
        _refuse(properties, f"table format {raw['hoodie.table.format'][:60]} (hoodie.table.format)")
    if (properties.version >= 8) != (properties.layout == 2):
        _refuse(properties, f"table version {properties.version} on timeline layout {properties.layout}")


def _refuse(properties: TableProperties, feature: str) -> NoReturn:
    raise UnsupportedFeature(
        f"{feature}: table {shown_uri(properties.base_path)} (version {properties.version}, {properties.table_type}) "
        "uses it and this build does not read it"
    )

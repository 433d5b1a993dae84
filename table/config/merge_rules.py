"""The merge rules that follow from a table's settings, and the settings that no query supports. Pure.

Sources: Hudi `HoodieTableConfig.inferMergingConfigsForPreV9Table`, RFC-97 (payload classes replaced by merge modes).
`payload_classes` has the rules of each payload class.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NoReturn

from penstock.proto.errors import ConfigurationError, TableError, UnsupportedFeature
from penstock.proto.model.splits import (
    CommitTimeOrdering,
    CustomMerge,
    DeleteMarker,
    EventTimeOrdering,
    FillDefaults,
    FillMarked,
    FillMode,
    MergeMode,
    WholeRecords,
)
from penstock.table.config.payload_classes import MergeRules, full_name, is_plain, payload_rules
from penstock.table.config.properties import TableProperties
from penstock.table.storage.uris import redacted_uri

_EVENT_TIME: Final = "EVENT_TIME_ORDERING"
_COMMIT_TIME: Final = "COMMIT_TIME_ORDERING"
_CUSTOM: Final = "CUSTOM"
_EVENT_STRATEGY: Final = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
_COMMIT_STRATEGY: Final = "ce9acb64-bde0-424c-9b91-f6ebba25356d"
_PAYLOAD_STRATEGY: Final = "00000000-0000-0000-0000-000000000000"
_MERGE_PROPERTY: Final = "hoodie.record.merge.property."
_DELETE_FIELD: Final = "hoodie.payload.delete.field"
_DELETE_MARKER: Final = "hoodie.payload.delete.marker"
_UNAVAILABLE: Final = "hoodie.write.partial.update.unavailable.value"


def merge_mode(properties: TableProperties) -> MergeMode:
    """The merge mode of the table; see `merge_rules`."""
    return merge_rules(properties).mode


def merge_rules(properties: TableProperties, requested_marker: DeleteMarker | None = None) -> MergeRules:
    """The rules by which records of one key merge in this table.

    EventTimeOrdering(()) is event time without an ordering field: all records have the same ordering value, so the
    newer one wins. `requested_marker` is the delete marker of the query; the table's own marker takes precedence, as in
    Hudi. A copy-on-write table never merges, so any mode is valid for it. A merger or payload class that is not Hudi's
    is a `CustomMerge`: the reader decides whether it has a function for it. UnsupportedFeature, with the name of the
    setting, for one beside a merge mode that does not use it; ConfigurationError for a partial update mode that Hudi
    1.2.0 does not define.
    """
    if not properties.is_merge_on_read:
        fields = properties.ordering_fields
        return MergeRules(mode=EventTimeOrdering(fields) if fields else CommitTimeOrdering())
    rules = _stored_rules(properties) if properties.version >= 9 else _inferred_rules(properties)
    return replace(rules, delete_marker=_own_marker(properties) or rules.delete_marker or requested_marker)


def rules_of_writes(properties: TableProperties) -> MergeRules:
    """The rules by which a writer merges records, in copy-on-write tables too. Errors as `merge_rules`."""
    rules = _stored_rules(properties) if properties.version >= 9 else _inferred_rules(properties)
    return replace(rules, delete_marker=_own_marker(properties) or rules.delete_marker)


def _own_marker(properties: TableProperties) -> DeleteMarker | None:
    field, marker = (_merge_property(properties, name) for name in (_DELETE_FIELD, _DELETE_MARKER))
    if bool(field) != bool(marker):
        present, missing = (_DELETE_FIELD, _DELETE_MARKER) if field else (_DELETE_MARKER, _DELETE_FIELD)
        raise ConfigurationError(
            f"table {redacted_uri(properties.base_path)} sets {present}={(field or marker)[:60]} and not {missing}: "
            "Hudi reads neither without the other; set both in the table's properties"
        )
    return DeleteMarker(field, marker) if field else None


def _merge_property(properties: TableProperties, name: str) -> str:
    """A merge setting: with the prefix that Hudi uses since 1.1, else by its plain name."""
    return properties.raw.get(_MERGE_PROPERTY + name, "") or properties.raw.get(name, "")


def _stored_rules(properties: TableProperties) -> MergeRules:
    """The rules that a version 9 table stores. After an upgrade the legacy payload class no longer determines them."""
    fill = _stored_fill(properties)
    if properties.merge_mode == _CUSTOM and (custom := _custom_rules(properties)) is not None:
        return custom
    return MergeRules(mode=_stored_mode(properties), fill=fill)


def _custom_rules(properties: TableProperties) -> MergeRules | None:
    """The rules of merge mode CUSTOM: by the strategy, else by the payload class. None if the table names neither.

    Rules of Hudi's own payload classes are those of tables below version 9. Version 9 stores them as merge modes, but
    for `HoodieAvroPayload`.
    """
    strategy, payload = _user_strategy(properties), properties.payload_class
    if strategy:
        return MergeRules(mode=CustomMerge(strategy, False, properties.ordering_fields))
    if not payload:
        return None
    rules = payload_rules(payload, properties.ordering_fields)
    if rules is None:
        return MergeRules(mode=CustomMerge(full_name(payload), True, properties.ordering_fields))
    return rules if properties.version < 9 or rules == MergeRules(mode=CommitTimeOrdering()) else None


def _user_strategy(properties: TableProperties) -> str:
    """The merge strategy id in lower case, or '' for none and for those of Hudi itself, which add nothing to merge mode
    and payload class."""
    strategy = properties.merge_strategy.lower()
    return "" if strategy in ("", _EVENT_STRATEGY, _COMMIT_STRATEGY, _PAYLOAD_STRATEGY) else strategy


def _stored_fill(properties: TableProperties) -> FillMode:
    match properties.partial_update_mode:
        case "":
            return WholeRecords()
        case "IGNORE_DEFAULTS" if properties.version >= 9:
            return FillDefaults(by_identity=True)
        case "FILL_UNAVAILABLE" if properties.version >= 9:
            marker = _merge_property(properties, _UNAVAILABLE)
            return FillMarked(marker, from_newer=True) if marker else WholeRecords()
    raise ConfigurationError(
        f"table {redacted_uri(properties.base_path)} (version {properties.version}) sets "
        f"hoodie.table.partial.update.mode={properties.partial_update_mode[:60]}: Hudi 1.2 reads IGNORE_DEFAULTS and "
        "FILL_UNAVAILABLE, from table version 9"
    )


def _stored_mode(properties: TableProperties) -> MergeMode:
    """The merge mode as versions 8 and 9 store it."""
    _refuse_strategy(properties)
    if properties.merge_mode not in (_EVENT_TIME, _COMMIT_TIME):
        (_refuse if properties.merge_mode == _CUSTOM else _contradict)(
            properties,
            f"record merge mode {properties.merge_mode or '(none)'} with strategy "
            f"{properties.merge_strategy or '(none)'} and payload {properties.payload_class or '(none)'}",
        )
    if properties.payload_class and not is_plain(properties.payload_class):
        of_hudi = payload_rules(properties.payload_class, properties.ordering_fields) is not None
        (_contradict if of_hudi else _refuse)(
            properties, f"payload class {properties.payload_class} with record merge mode {properties.merge_mode}"
        )
    if properties.merge_mode == _COMMIT_TIME:
        return CommitTimeOrdering()
    return EventTimeOrdering(properties.ordering_fields)


def _inferred_rules(properties: TableProperties) -> MergeRules:
    """The rules of a table below version 9: as stored by version 8, else those of the payload class.

    Without a payload class Hudi orders by event time if the table has an ordering field.
    """
    _stored_fill(properties)
    stored = properties.version >= 8 and bool(properties.merge_mode)
    if not stored or properties.merge_mode == _CUSTOM:
        custom = _custom_rules(properties)
        if custom is not None:
            return custom
    if stored:
        return MergeRules(mode=_stored_mode(properties))
    fields = properties.ordering_fields
    return MergeRules(mode=EventTimeOrdering(fields) if fields else CommitTimeOrdering())


def _refuse_strategy(properties: TableProperties) -> None:
    """Refuses custom mergers beside a merge mode that does not use them."""
    if _user_strategy(properties):
        _refuse(
            properties,
            f"record merge strategy {properties.merge_strategy} (a custom record merger) with record merge mode "
            f"{properties.merge_mode or '(none)'}",
        )


def refuse_unsupported(properties: TableProperties) -> None:
    """UnsupportedFeature, with the name of the setting, if no query can read the table.

    TableError for a setting that Hudi 1.2.0 does not read or define. In a table with several file formats, unsupported
    files are refused one by one, when a query needs them.
    """
    raw = properties.raw
    if properties.base_file_format not in ("PARQUET", "ORC", "LANCE"):
        _refuse(properties, f"base file format {properties.base_file_format} (hoodie.table.base.file.format)")
    if properties.log_file_format != "HOODIE_LOG":
        _contradict(properties, f"log file format {properties.log_file_format} (hoodie.table.log.file.format)")
    if raw.get("hoodie.table.format", "native").strip().lower() not in ("", "native"):
        _contradict(properties, f"table format {raw['hoodie.table.format'][:60]} (hoodie.table.format)")
    if (properties.version >= 8) != (properties.layout == 2):
        _contradict(properties, f"table version {properties.version} on timeline layout {properties.layout}")


def _refuse(properties: TableProperties, feature: str) -> NoReturn:
    raise UnsupportedFeature(f"{feature}: {_described(properties)} uses it and this build does not read it")


def _contradict(properties: TableProperties, setting: str) -> NoReturn:
    raise TableError(f"{setting}: {_described(properties)} has this setting, and Hudi 1.2 neither writes nor reads it")


def _described(properties: TableProperties) -> str:
    return f"table {redacted_uri(properties.base_path)} (version {properties.version}, {properties.table_type})"

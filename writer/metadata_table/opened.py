"""The metadata table of a table, opened to be written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.proto.errors import CorruptFile, TableError
from penstock.proto.model.positions import InstantTime
from penstock.table.config.properties import load_properties
from penstock.table.files.names import parse_file_name
from penstock.table.hudi_table import HudiTable
from penstock.table.metadata.files import FILES
from penstock.table.metadata.folder import WritableFolder
from penstock.table.metadata.metadata_table import METADATA_FOLDER
from penstock.table.metadata.record_schema import block_schema
from penstock.table.metadata.validity import first_not_recorded
from penstock.table.storage.local_writes import WritableStorage
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import Action, Instant, State, instant_file_name

FILE_GROUP: Final = "files-0000-0"
"""The only file group of the partition `files`."""

TOKEN: Final = "0-0-0"
"""Write token of the files that Penstock writes here: one writer holds the lock."""

NewTime = Callable[[Timeline], InstantTime]
"""A time later than all times of this timeline, and of that of the data table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableMetadata:
    """A metadata table as of one read of its timeline."""

    table: HudiTable
    """The metadata table."""
    storage: WritableStorage
    """Its files."""
    timeline: Timeline
    """Its timeline."""

    @staticmethod
    def open(storage: WritableStorage) -> WritableMetadata:
        """The metadata table of the table with these files. Errors of opening a table, such as TableNotFound."""
        folder = WritableFolder(storage, METADATA_FOLDER)
        table = HudiTable(folder, load_properties(folder))
        return WritableMetadata(table=table, storage=folder, timeline=table.timeline())

    def refreshed(self) -> WritableMetadata:
        """The metadata table with its timeline read again."""
        return WritableMetadata(table=self.table, storage=self.storage, timeline=self.table.timeline())

    @property
    def where(self) -> str:
        """The beginning of error texts."""
        return f"metadata table {redacted_uri(self.table.base_path)}"

    def instants_at(self, requested_time: str) -> tuple[Instant, ...]:
        """The instants of this requested time."""
        return tuple(item for item in self.timeline.instants if item.requested_time == requested_time)

    def commit_schema(self) -> str:
        """The schema that the newest commit records. CorruptFile if none does."""
        for instant in reversed(self.timeline.completed_writes):
            schema_json = self.table.commit(instant).schema_json
            if schema_json:
                return schema_json
        raise CorruptFile(f"{self.where}: no commit has a schema")

    def block_schema(self) -> str:
        """The schema of its log blocks and base files."""
        return block_schema(self.commit_schema(), self.where)

    def path_of(self, instant: str, action: Action, state: State, completion: InstantTime | None = None) -> str:
        """The path of a timeline file."""
        properties = self.table.properties
        name = instant_file_name(instant, action, state, completion, properties.layout)
        return f"{properties.timeline_folder}/{name}"


def check_current(metadata: WritableMetadata, data: Timeline) -> None:
    """TableError if the metadata table lacks an instant of the data table, so that no commit can make it right; or if
    its files are in other groups than Hudi's writers put them."""
    if not metadata.timeline.completed_writes:
        raise TableError(f"{metadata.where} has no completed instant")
    if metadata.table.properties.layout != data.layout:
        raise TableError(f"{metadata.where} has timeline layout {metadata.table.properties.layout}, not {data.layout}")
    missing = first_not_recorded(data, metadata.timeline)
    if missing:
        raise TableError(f"{metadata.where} lacks instant {missing}: a writer did not update it")
    names = [parse_file_name(info.name) for info in metadata.storage.list_dir(FILES)]
    groups = {name.file_id for name in names if name is not None}
    if groups != {FILE_GROUP}:
        raise TableError(f"{metadata.where}: {FILES} has the file groups {sorted(groups)[:5]}, expected {FILE_GROUP}")

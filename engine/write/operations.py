"""The operations of a write."""

from __future__ import annotations

from enum import Enum

from penstock.proto.errors import ConfigurationError


class Operation(Enum):
    """What a write does with its rows. The value is the option's text; Hudi's name is the upper case form
    (`WriteOperationType`)."""

    UPSERT = "upsert"
    INSERT = "insert"
    BULK_INSERT = "bulk_insert"
    DELETE = "delete"
    INSERT_OVERWRITE = "insert_overwrite"
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"
    DELETE_PARTITION = "delete_partition"

    @property
    def hudi_name(self) -> str:
        """The name in commit metadata."""
        return self.value.upper()

    @property
    def searches_keys(self) -> bool:
        """Whether rows replace those of equal keys in the table."""
        return self in (Operation.UPSERT, Operation.DELETE)

    @property
    def combines(self) -> bool:
        """Whether rows of one key are combined first, as Hudi's defaults are."""
        return self.searches_keys

    @property
    def deletes(self) -> bool:
        """Whether every row is a delete of its key."""
        return self is Operation.DELETE

    @property
    def fills_small_files(self) -> bool:
        """Whether new rows fill small base files first."""
        return self in (Operation.UPSERT, Operation.INSERT)

    @property
    def only_new_groups(self) -> bool:
        """Whether rows are written into new file groups alone."""
        return self is Operation.BULK_INSERT

    @property
    def replaces(self) -> bool:
        """Whether file groups are replaced: those of the rows' partitions, or all."""
        return self in (Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE, Operation.DELETE_PARTITION)

    @property
    def replaces_table(self) -> bool:
        """Whether all file groups are replaced."""
        return self is Operation.INSERT_OVERWRITE_TABLE

    @property
    def deletes_partitions(self) -> bool:
        """Whether the rows only name partitions, whose file groups are replaced by none."""
        return self is Operation.DELETE_PARTITION


def parse_operation(text: str) -> Operation:
    """The operation of this name. ConfigurationError for another text."""
    try:
        return Operation(text)
    except ValueError:
        raise ConfigurationError(
            f"operation: got {text[:60]!r}, expected one of {', '.join(item.value for item in Operation)}"
        ) from None

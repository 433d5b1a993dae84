"""The settings of a Flight server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from penstock.enumerator.server.config.settings import Settings
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.access import checked_address

MAX_LOCATIONS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightSettings:
    """One data server. ConfigurationError for a value out of its range, and for settings that exclude each other."""

    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {
        "ticket_lifetime_ms": (1_000, 7 * 86_400_000),
        "streams": (1, 10_000),
        "idle_ms": (1_000, 86_400_000),
    }

    server: Settings
    """Address, tables, TLS, tokens, access rules and limits, as those of `penstock serve`."""
    planner: Mapping[str, object] = field(default_factory=dict)
    """The options `server…` of the enumerator's server that plans; empty: this process plans."""
    locations: tuple[str, ...] = ()
    """HOST:PORT of the data servers that clients may read from; empty: the server that planned."""
    ticket_key: str = ""
    """The file with the keys of tickets; empty: a key of this process."""
    ticket_lifetime_ms: int = 3_600_000
    """How long a ticket is valid."""
    streams: int = 64
    """The maximum number of open streams."""
    idle_ms: int = 300_000
    """How long a client may read nothing before its stream is closed."""

    def __post_init__(self) -> None:
        if not self.server.tables:
            raise ConfigurationError("no table to serve: name at least one, as --table NAME=PATH")
        for name, (least, most) in self.ranges.items():
            value = getattr(self, name)
            if not least <= value <= most:
                flag = "--" + name.removesuffix("_ms").replace("_", "-")
                raise ConfigurationError(f"{flag}: got {value:g}, expected {least:g} to {most:g}")
        if len(self.locations) > MAX_LOCATIONS:
            raise ConfigurationError(f"--location: got {len(self.locations)}, expected at most {MAX_LOCATIONS}")
        for location in self.locations:
            try:
                checked_address(location)
            except ConfigurationError as error:
                raise ConfigurationError(f"--location: {error}") from None
        if len(self.locations) > 1 and not self.ticket_key:
            raise ConfigurationError(
                "--location: several data servers accept each other's tickets only with the same key: give "
                "--ticket-key FILE to each of them"
            )

    @property
    def scheme(self) -> str:
        """The scheme of the server's locations."""
        return "grpc+tls" if self.server.tls.cert else "grpc"

    @property
    def location_uris(self) -> tuple[str, ...]:
        """The locations as URIs. Data servers have TLS if this one has."""
        return tuple(f"{self.scheme}://{location}" for location in self.locations)

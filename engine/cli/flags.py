"""Adds options of the registry (`penstock.proto.options.registry`) to a command as flags."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Collection
from typing import Annotated, Any

from penstock.engine.cli.shell import registry_flag
from penstock.proto.errors import ConfigurationError
from penstock.proto.options.registry import OPTIONS, EntryPoint, Option
from penstock.proto.options.types import (
    Address,
    Choice,
    ClientSettings,
    Duration,
    Functions,
    Names,
    Number,
    OnOff,
    OptionType,
    Text,
    Time,
    TrueFalse,
)

Command = Callable[..., None]


def with_registry_flags(
    *, but: Collection[str] = (), only: Collection[str] | None = None, entry_point: EntryPoint = EntryPoint.CLI
) -> Callable[[Command], Command]:
    """Adds a flag to a command for each option of the entry point, without those in `but`, or only those in `only`.

    The command receives the values in `flags`, a dict by option name (None: not given), instead of one parameter for
    each option. In `--help` the flags come after the first argument.
    """
    options = [option for option in OPTIONS if entry_point in option.entry_points and option.name not in but]
    if only is not None:
        options = [option for option in options if option.name in only]

    def decorate(command: Command) -> Command:
        own = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in inspect.signature(command, eval_str=True).parameters.values()
            if parameter.name != "flags"
        ]
        added = [
            inspect.Parameter(
                option.python_name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(option)
            )
            for option in options
        ]

        @functools.wraps(command)
        def with_flags(**values: Any) -> None:
            flags = {option.name: _typed(option, values.pop(option.python_name)) for option in options}
            command(flags=flags, **values)

        parameters = [*own[:2], *added, *own[2:]]
        del with_flags.__wrapped__
        with_flags.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_flags.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return with_flags

    return decorate


def _annotation(option: Option) -> Any:
    """The type that typer parses. A flag of client settings may be repeated, any other flag not."""
    flag = registry_flag(option.name, metavar=_metavar(option.type))
    return Annotated[list[str] | None, flag] if isinstance(option.type, ClientSettings) else Annotated[str | None, flag]


def _typed(option: Option, value: Any) -> str | None:
    """The value of the flag as text; client settings as a JSON object."""
    if not isinstance(value, list):
        return value if value is None else str(value)
    settings: dict[str, str] = {}
    for number, pair in enumerate(value, 1):
        name, equals, setting = pair.partition("=")
        if not equals or not name:
            raise ConfigurationError(f"{option.flag}, number {number}: expected KEY=VALUE")
        if name in settings:
            raise ConfigurationError(f"{option.flag} {name[:80]}=…: given twice")
        settings[name] = setting
    return json.dumps(settings) if settings else None


def _metavar(kind: OptionType) -> str:
    match kind:
        case Names():
            return "A,B"
        case Number():
            return "N"
        case ClientSettings():
            return "KEY=VALUE"
        case Functions():
            return "NAME=MODULE:FUNCTION"
        case OnOff():
            return "on|off"
        case TrueFalse():
            return "true|false"
        case Duration():
            return "DURATION"
        case Choice(values=values):
            return "|".join(values)
        case Address(form=form) | Text(form=form) | Time(form=form):
            return form.rpartition(" ")[2].upper()

"""References to secrets in client settings, `${env:NAME}` and `${file:PATH}`, resolved where a client is created.

With references, no secret is in a process list, an option, a checkpoint or a server's configuration file.
"""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.hybrid import KafkaAccess

MAX_SECRET_BYTES: Final = 65_536

_REFERENCE: Final = re.compile(r"\$\{(env|file):([^{}]{1,4096})\}")


def with_secrets(access: KafkaAccess, environment: Mapping[str, str] | None = None) -> KafkaAccess:
    """The access with the references in its settings and in its registry's URL replaced by their values.

    A value is a variable of `environment` (default: this process's), or a file's text without trailing line ends.
    ConfigurationError contains setting and reference, never a value.
    """
    variables = os.environ if environment is None else environment
    client = tuple((name, _resolved(f"kafka.{name}", text, variables)) for name, text in access.client)
    return replace(access, client=client, registry_url=_resolved("schemaRegistryUrl", access.registry_url, variables))


def _resolved(name: str, text: str, environment: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda match: _value(name, match[1], match[2], environment), text)


def _value(name: str, kind: str, what: str, environment: Mapping[str, str]) -> str:
    if kind == "env":
        if what not in environment:
            raise ConfigurationError(f"option {name}: environment variable {what} is not set in this process")
        return environment[what]
    try:
        with pathlib.Path(what).open("rb") as file:
            data = file.read(MAX_SECRET_BYTES + 1)
        if len(data) > MAX_SECRET_BYTES:
            raise ConfigurationError(f"option {name}: file {what} has more than {MAX_SECRET_BYTES} bytes")
        return data.decode().rstrip("\r\n")
    except OSError as error:
        raise ConfigurationError(f"option {name}: file {what} cannot be read here: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"option {name}: file {what} is not text in UTF-8") from None

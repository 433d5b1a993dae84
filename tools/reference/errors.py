"""docs/reference/errors.md, from the tree of errors and the codes of the command line."""

from __future__ import annotations

from penstock.engine.cli.errors import EXIT_CODES, OWN_CODES
from penstock.proto.codec.errors import CODE_KEY, INVARIANT_CODE, MAX_RETRY_MS
from penstock.proto.errors import PenstockError, all_error_classes
from reference.rendering import Page, code, described, sentence, table

HEAD = """An error says what failed, in which table, instant and file, the actual and the expected value, and what to
do. In Python it is an exception of `penstock.errors`; the class of a family catches all classes that are indented below
it. On the command line it is one line, `error [CODE]: …` (with `--log-format json` an object with `level`, `code`,
`message`, `exit_code`), and the exit code.

"""

WIRE = f"""## Over gRPC

A failed call has the status above, the text as its details, and the code in the trailing metadata `{CODE_KEY}`. The
client raises the class of this code. An error whose call may succeed on a retry carries `google.rpc.RetryInfo`, at most
{MAX_RETRY_MS // 1000} s. A bug of the server is INTERNAL with the code `{INVARIANT_CODE}`. Failures without a code come
from gRPC itself: no connection, no answer in time, a message too large.
"""


def page() -> Page:
    """The page."""
    errors = table(
        ("code", "class", "exit code", "gRPC status", "retry", "what happened", "what to do"),
        rows(PenstockError, 0),
    )
    own = table(
        ("code", "exit code", "what happened", "what to do"),
        (
            (code(name), str(own.exit_code), described(name, own.doc), sentence(described(name, own.advice)))
            for name, own in OWN_CODES.items()
        ),
    )
    exits = table(("exit code", "means"), ((str(number), text) for number, text in EXIT_CODES.items()))
    body = f"{HEAD}{errors}\n## Of the command line alone\n\n{own}\n## Exit codes\n\n{exits}\n{WIRE}"
    about = "every error: code, class, exit code, gRPC status, whether a retry may succeed, what to do"
    return Page("errors", "Errors", about, "proto/errors.py and engine/cli/errors.py", body)


def rows(cls: type[PenstockError], depth: int) -> list[tuple[str, ...]]:
    """The rows of a class and of its subclasses."""
    meaning = sentence(described(f"error {cls.code}", vars(cls).get("__doc__")))
    advice = sentence(described(f"the advice of error {cls.code}", vars(cls).get("advice", "")))
    name = "\u2003" * depth + code(cls.__name__)
    own_rows = [
        (code(cls.code), name, str(cls.exit_code), cls.grpc_status, "yes" if cls.retryable else "no", meaning, advice)
    ]
    return own_rows + [row for child in cls.__subclasses__() if child in known() for row in rows(child, depth + 1)]


def known() -> set[type[PenstockError]]:
    """The classes with their own code."""
    return set(all_error_classes().values())

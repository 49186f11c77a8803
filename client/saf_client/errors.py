"""What a call may raise. One class per family of causes; the stable `code` says which cause.

What the daemon refuses comes as `data` of a JSON-RPC error and becomes the class of its family, found through
`safd.api.faults`. What happens on this side (no daemon, a lost connection) has a code of the same kind.
"""

import json
from typing import cast

from safd.api import faults
from safd.model import errors as causes


class SafdError(Exception):
    """`code` is stable, `detail` a sentence that says what to do, `fields` what the cause carries beside."""

    def __init__(self, code: str, detail: str, fields: dict[str, object] | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.fields: dict[str, object] = fields or {}

    def __str__(self) -> str:
        return self.detail


class Malformed(SafdError):
    """What was sent does not have the shape that was asked for; sending it again cannot help."""


class Refused(SafdError):
    """The shape was right, the content was not allowed."""


class Conflict(SafdError):
    """True at another time: read the present state, then decide again."""


class Denied(SafdError):
    """This caller may not do this."""


class Missing(SafdError):
    """What was named does not exist there."""


class TooMuch(SafdError):
    """A limit was met."""


class Unavailable(SafdError):
    """Not now; the same request may succeed later."""


class Damaged(SafdError):
    """What is stored cannot be read as it was written."""


class NoDaemon(Unavailable):
    """No socket answered. `detail` says what was tried and what to do."""

    def __init__(self, detail: str) -> None:
        super().__init__("no_daemon", detail)


class ConnectionLost(Unavailable):
    """The connection broke while `method` was unanswered, and asking again could do it twice."""

    def __init__(self, method: str, reason: str, advice: str) -> None:
        super().__init__(
            "connection_lost",
            f"The connection broke before {method} was answered ({reason}). {advice}",
            {"method": method},
        )


class DeadlinePassed(Unavailable):
    """The call took longer than its deadline; it may still be carried out."""

    def __init__(self, method: str, deadline_s: float) -> None:
        super().__init__(
            "deadline_passed",
            f"{method} was not answered within {deadline_s:g} s and may still be carried out. "
            "Give it a longer deadline, or look before you send it again.",
            {"method": method},
        )


class AnswerMalformed(Damaged):
    """What came back is not an answer of safd."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            "answer_malformed", f"The other end does not speak as safd does: {reason}. Is this safd's socket?"
        )


FAMILIES: dict[type[causes.SafError], type[SafdError]] = {
    causes.Malformed: Malformed,
    causes.Refused: Refused,
    causes.Conflict: Conflict,
    causes.Denied: Denied,
    causes.Missing: Missing,
    causes.TooMuch: TooMuch,
    causes.Unavailable: Unavailable,
    causes.Damaged: Damaged,
}


def from_fault(error: bytes) -> SafdError:
    """The typed error of a JSON-RPC `error` object; a code that this client does not know keeps its sentence."""
    found = json.loads(error)
    if not isinstance(found, dict):
        return AnswerMalformed("its error is not an object")
    fault = cast("dict[str, object]", found)
    data = fault.get("data")
    fields = dict(cast("dict[str, object]", data)) if isinstance(data, dict) else {}
    code = fields.pop("code", None)
    detail = fields.pop("detail", None) or fault.get("message")
    if not isinstance(code, str):
        return SafdError("unknown", str(detail), fields)
    return of_code(code)(code, str(detail), fields)


def from_cause(cause: causes.SafError) -> SafdError:
    """The same error where this side of the socket already sees the cause."""
    return of_code(cause.code)(cause.code, str(cause))


def of_code(code: str) -> type[SafdError]:
    cause = faults.BY_CODE.get(code)
    if cause is None:
        return SafdError
    return next((ours for family, ours in FAMILIES.items() if issubclass(cause, family)), SafdError)

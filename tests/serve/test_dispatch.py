"""Causes and how they cross: each has one row, and can be told in both framings whatever it carries."""

import inspect
import json
from typing import get_type_hints

import attrs
import pytest

from safd.api import faults, lines
from safd.model import errors, failures
from safd.model.errors import SafError
from safd.serve import http

NAMED = [cls for room in (errors, failures) for cls in vars(room).values() if inspect.isclass(cls)]
FAMILIES = {cls for cls in NAMED if SafError in cls.__bases__}
CAUSES = sorted({cls for cls in NAMED if FAMILIES & set(cls.__bases__)}, key=lambda cause: cause.code)
EXAMPLES: dict[object, object] = {
    str: "\ud800 is \x00 here",
    int: 7,
    float: 1.5,
    int | None: None,
    tuple[str, ...]: ("a", "b"),
}


def example(cause: type[SafError]) -> SafError:
    assert attrs.has(cause)
    hints = get_type_hints(cause)
    found = cause(**{field.name: EXAMPLES[hints[field.name]] for field in attrs.fields(cause)})
    assert isinstance(found, SafError)
    return found


def test_each_cause_has_its_row() -> None:
    """No cause is without a fault, no code means two things, no number of ours is used twice."""
    assert set(faults.FAULTS) == set(CAUSES)
    assert len(faults.BY_CODE) == len(CAUSES)
    ours = [fault.number for fault in faults.FAULTS.values() if -32100 < fault.number <= -32000]
    assert len(ours) == len(set(ours))


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.code)
def test_each_cause_can_be_told(cause: type[SafError]) -> None:
    """Code, sentence and fields arrive over lines and over HTTP alike, even where a text is none that UTF-8 holds."""
    error = example(cause)
    problem = json.loads(http.problem(error))
    told = json.loads(lines.render_error("1", error))["error"]
    assert told["data"]["code"] == problem["code"] == cause.code
    assert told["data"]["detail"] == problem["detail"] == str(error)
    assert (told["code"], problem["status"]) == (faults.FAULTS[cause].number, faults.FAULTS[cause].status)
    for field in attrs.fields(cause):  # type: ignore[arg-type]
        assert told["data"][field.name] == problem[field.name]


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.code)
def test_each_sentence_says_something(cause: type[SafError]) -> None:
    """A sentence is one: it begins with what it is about and ends with a full stop."""
    text = str(example(cause))
    assert len(text) > 20
    assert text.endswith(".")


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.code)
def test_refusing_in_http(cause: type[SafError]) -> None:
    """Each cause makes a whole HTTP answer, also where nothing was asked yet."""
    answer = b"".join(http.Face(10).refuse(http.Refused(example(cause), whole=False)))
    assert answer.startswith(b"HTTP/1.1 %d " % faults.FAULTS[cause].status)

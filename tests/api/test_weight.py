"""A text's values are counted without reading it, and strings weigh nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safd.api.weight import refuse_too_many
from safd.model.errors import TooManyValues

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='a,[{"\\\n', max_size=20),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text(alphabet='b,"\\', max_size=4), inner, max_size=5)
    ),
)


def marks(value: object) -> int:
    """Commas and opening brackets outside strings, by the value itself."""
    match value:
        case list():
            return 1 + max(0, len(value) - 1) + sum(map(marks, value))
        case dict():
            return 1 + max(0, len(value) - 1) + sum(map(marks, value.values()))
        case _:
            return 0


@given(value=VALUES)
def test_strings_weigh_nothing(value: object) -> None:
    """Just enough is enough, one less is too little, whatever stands in strings and keys."""
    text, count = json.dumps(value).encode(), marks(value)
    refuse_too_many(text, count)
    if count:
        with pytest.raises(TooManyValues):
            refuse_too_many(text, count - 1)

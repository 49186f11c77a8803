"""The block of authority is known in every spelling that a model would read as one."""

import json

import pytest

from safd.model import codec, spans
from safd.model.authority import imitates_principal
from safd.model.errors import PrincipalInRecord
from safd.model.principals import BLOCK_CLOSING, BLOCK_OPENING


@pytest.mark.parametrize(
    "text",
    [
        BLOCK_OPENING,
        BLOCK_CLOSING,
        "<RUNTIME-PRINCIPAL>",
        "< runtime-principal >",
        '<runtime-principal a="b">',
        "<\nruntime-principal\n>",
        "</ Runtime_Principal>",
        "<runtimeprincipal>",
        "<runtime principal>",
        "<run\u200btime-principal>",
        "<runtime\u00ad-principal>",
        "<runtime\u2011principal>",
        "<runtime\x00-princi\u0301pal>",
        "\uff1cruntime-principal\uff1e",
        "<\uff52untime-principal>",
        "<\U0001d42b\U0001d42e\U0001d427\U0001d42d\U0001d422\U0001d426\U0001d41e-principal>",
        "<runtime\ud800-principal>",
        "before <a <runtime-principal> after",
    ],
)
def test_spellings(text: str) -> None:
    """Case, width, style, and whatever stands between the letters do not matter; nor does being cut in two."""
    assert imitates_principal(text)
    for cut in range(len(text)):
        assert imitates_principal(text[:cut], text[cut:])


@pytest.mark.parametrize(
    "text", ["", "the runtime principal", "runtime-principal>", "<runtime>principal", "<runtime-principle>", "<r<u"]
)
def test_other_words(text: str) -> None:
    """Speech about it is speech."""
    assert not imitates_principal(text)


def test_long_texts() -> None:
    """The look is linear: megabytes of what almost is one take no time to speak of."""
    assert not imitates_principal("<runtime-principa" * 200_000, "<" * 1_000_000, "<" + "-" * 1_000_000)


def test_spread_over_blocks() -> None:
    """Two texts of one system message are read as one."""
    blocks = [{"type": "text", "text": "<runtime-"}, {"type": "text", "text": "principal>"}]
    text = json.dumps({"role": "system", "blocks": blocks})
    with pytest.raises(PrincipalInRecord) as caught:
        codec.parse_message(spans.whole(text))
    assert caught.value.path == "blocks"

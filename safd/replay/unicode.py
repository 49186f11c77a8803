r"""What JSON in UTF-8 cannot carry: lone surrogates. Everything else, NUL included, crosses as it is.

Providers refuse a body with a lone surrogate ("no low surrogate in string", wire rules AM18, OC11). NUL is legal
JSON (`\u0000`), and no provider rule forbids it.
"""

import re
from typing import Final

from safd.model.blocks import JsonText

REPLACEMENT: Final = "\ufffd"
_ESCAPES: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|[^\n])"
)


def carried(text: str) -> str:
    """The text with each lone surrogate replaced; halves that stand side by side become the character they spell."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def carried_json(text: JsonText) -> JsonText:
    """A JSON text in which no string has a lone surrogate, whether spelled as such or as an escape."""
    found = carried(text)
    if "\\ud" in found or "\\uD" in found:
        found = _ESCAPES.sub(_escape, found)
    return JsonText(found)


def _escape(found: re.Match[str]) -> str:
    return found[0] if found[1] is None else "\\ufffd"

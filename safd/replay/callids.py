"""Ids and names in a target's alphabet: deterministic, both halves of a pair at once, stable under appends.

An id that fits and was not given yet crosses verbatim. Otherwise it is minted from the call's place in the record,
never cut, so that two ids cannot become one. Ids are unique in the whole request. What an earlier call got depends
on earlier calls alone, so that no append changes it.
"""

import hashlib
import re
from typing import Final

import attrs

from safd.model.ids import MessageId

MINTED_LENGTH: Final = 9
"""Nine letters and digits are an id at every provider; Mistral takes nothing else (wire rules A8, section 0)."""
_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]+")
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_-]+")
_SUFFIX: Final = 8


@attrs.define(eq=False)
class CallIds:
    """The ids given so far in one request."""

    _fits: re.Pattern[str]
    _given: set[str] = attrs.field(factory=set[str])

    def give(self, raw: str, message_id: MessageId, block: int) -> str:
        fits = raw not in self._given and self._fits.fullmatch(raw) is not None
        found = raw if fits else self._mint(message_id, block)
        self._given.add(found)
        return found

    def _mint(self, message_id: MessageId, block: int) -> str:
        attempt = 0
        while True:
            found = _digits(f"{message_id}\n{block}\n{attempt}", MINTED_LENGTH)
            if found not in self._given:
                return found
            attempt += 1


def name_for(raw: str, limit: int) -> str:
    """A tool's name in letters, digits, `_` and `-`; a name that must change ends in a hash of what it was."""
    if len(raw) <= limit and _NAME.fullmatch(raw) is not None:
        return raw
    kept = _FOREIGN.sub("_", raw)[: limit - _SUFFIX - 1].strip("_") or "tool"
    return f"{kept}_{_digits(raw, _SUFFIX)}"


def _digits(text: str, length: int) -> str:
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16], "big")
    found: list[str] = []
    for _ in range(length):
        number, digit = divmod(number, len(_ALPHABET))
        found.append(_ALPHABET[digit])
    return "".join(found)

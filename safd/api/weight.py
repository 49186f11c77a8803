"""How many values a JSON text holds, told without reading it: each costs memory and time that its bytes do not show.

Sixty megabytes of `[],[],` are twenty million lists, which is gigabytes of memory and seconds in which nobody else is
served; one string of the same size is nothing. A count of commas and brackets is enough, outside strings.
"""

from safd.model.errors import TooManyValues


def refuse_too_many(text: bytes, limit: int) -> None:
    """Raises TooManyValues. Commas inside strings count only until they are looked at more closely."""
    if _marks(text) > limit and sum(map(_marks, _outside_strings(text))) > limit:
        raise TooManyValues(limit=limit)


def _marks(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _outside_strings(text: bytes) -> list[bytes]:
    """What stands between strings; for a text that is no JSON, something."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]

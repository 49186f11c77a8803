"""A moment as text: RFC 3339 in UTC with milliseconds, the form of every time that safd writes."""

from datetime import UTC, datetime
from functools import lru_cache


def rfc3339(unix_ms: int) -> str:
    """`2026-12-01T10:00:00.123Z` for milliseconds since 1970; whole seconds first, so that no float rounds them."""
    seconds, ms = divmod(unix_ms, 1000)
    return f"{_second(seconds)}.{ms:03d}Z"


@lru_cache(maxsize=16)
def _second(seconds: int) -> str:
    """Written once a second: it costs as much as three system calls, and stands in every answer."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"

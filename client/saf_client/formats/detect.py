"""Which format a file has, told by what most of its lines are, never by its name or its first line."""

from collections.abc import Callable, Sequence

import attrs

from saf_client.formats import claude_code, saf_jsonl
from saf_client.formats.lines import AnyLine, Line, read_lines
from saf_client.formats.transcript import BadLine, Transcript

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@attrs.frozen(kw_only=True)
class Format:
    """One foreign format: whether a line is of it, and what a file of such lines says."""

    recognises: Callable[[Line], bool]
    read: Callable[[Sequence[AnyLine], str], Transcript]


FORMATS = {room.FORMAT: Format(recognises=room.recognises, read=room.read) for room in (saf_jsonl, claude_code)}


@attrs.frozen(kw_only=True)
class NotUnderstood:
    """Why a file cannot be imported."""

    reason: str
    bad: tuple[BadLine, ...] = ()


def read_transcript(content: bytes, source: str) -> Transcript | NotUnderstood:
    """`source` is the file's path: it names a conversation whose lines do not."""
    if content.startswith(_UTF_16):
        return NotUnderstood(reason="it is UTF-16; write it as UTF-8 first (iconv -f UTF-16 -t UTF-8)")
    lines = list(read_lines(content))
    good = [line for line in lines if isinstance(line, Line)]
    bad = tuple(line for line in lines if isinstance(line, BadLine))
    if not lines:
        return NotUnderstood(reason="the file is empty")
    if not good:
        first = f"; the first, at byte {bad[0].offset}: {bad[0].reason}"
        return NotUnderstood(reason=f"no line of it is a JSON object{first}", bad=bad)
    votes = {name: sum(map(format_.recognises, good)) for name, format_ in FORMATS.items()}
    chosen = max(votes, key=lambda name: votes[name])
    if not votes[chosen]:
        known = ", ".join(FORMATS)
        return NotUnderstood(reason=f"its lines are of no format that is known here ({known})", bad=bad)
    return FORMATS[chosen].read(lines, source)

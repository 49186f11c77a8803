"""The record's own format as lines: what `saf export` writes, and messages as they are offered.

Rules. A stored line keeps every byte but the daemon's own fields (`id`, `seq`, `recorded_at`, `writer`,
`prev_hash`), which are taken off by their span: another daemon sets its own. Where the message has no `metadata`,
they are kept there, under `imported`, so that it stays known who wrote it and when; where it has one, that stays
byte for byte and the daemon's fields are not kept. An offered line is appended as it stands.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence

from saf_client.formats.lines import AnyLine, Line, text_of
from saf_client.formats.transcript import IMPORTED, BadLine, Exact, LeftOut, Thread, Transcript
from safd.model import spans
from safd.model.codec import DAEMON_FIELDS
from safd.model.messages import Role
from safd.model.spans import Span

FORMAT = "saf"

_DAMAGED = LeftOut(what="damaged message", why="it could not be read when it was exported; only its seq is known")
_OTHER = LeftOut(what="other line", why="neither a stored nor an offered message")


def recognises(line: Line) -> bool:
    blocks = line.members.get("blocks")
    roles = tuple(Role)
    return blocks is not None and blocks.first == "[" and text_of(line.members, "role") in roles


def read(lines: Sequence[AnyLine], source: str) -> Transcript:
    """One conversation. `source` (the file's path) names it where its first line has no id of its own."""
    units: list[Exact] = []
    left_out: Counter[LeftOut] = Counter()
    bad: list[BadLine] = []
    times: Counter[str] = Counter()
    first: Line | None = None
    for line in lines:
        if isinstance(line, BadLine):
            bad.append(line)
        elif recognises(line):
            first = first or line
            text = offered(line)
            digest = hashlib.sha256(text.encode()).hexdigest()
            times[digest] += 1
            units.append(Exact(id=f"{digest}#{times[digest]}", offset=line.offset, text=text))
        else:
            left_out[_DAMAGED if "damaged" in line.members else _OTHER] += 1
    threads = () if first is None else (_thread(first, source, tuple(units)),)
    return Transcript(format=FORMAT, threads=threads, left_out=left_out, changed={}, bad=tuple(bad))


def offered(line: Line) -> str:
    """The line as it is appended, by the rules above."""
    ours = {name: span for name, span in line.members.items() if name in DAEMON_FIELDS}
    if not ours:
        return line.text
    text = _without(line, ours)
    if "metadata" in line.members:
        return text
    head = ",".join(f'"{name}":{span}' for name, span in ours.items())
    joint = "" if text[1:-1].strip() == "" else ","
    return f'{text[:-1]}{joint}"metadata":{{"{IMPORTED}":{{"format":"{FORMAT}","head":{{{head}}}}}}}}}'


def _without(line: Line, ours: dict[str, Span]) -> str:
    """The object without these members and the comma that each of them brought."""
    names = list(line.members)
    kept = [name for name in names if name not in ours]
    head = names[: len(ours)]
    if set(head) == ours.keys() and kept:
        last = line.members[head[-1]]
        return "{" + last.text[last.text.index(",", last.end) + 1 : line.span.end]
    return "{" + ",".join(f"{_quoted(line, name)}:{line.members[name]}" for name in kept) + "}"


def _quoted(line: Line, name: str) -> str:
    """The key as it was spelled: what stands between the member before and the colon."""
    names = list(line.members)
    at = names.index(name)
    span = line.members[name]
    begin = span.text.index(",", line.members[names[at - 1]].end) if at else line.span.start
    return span.text[begin + 1 : span.start].strip(" \t").removesuffix(":").rstrip(" \t")


def _thread(first: Line, source: str, units: tuple[Exact, ...]) -> Thread:
    id_ = text_of(first.members, "id")
    origin = {"first_id": id_} if id_ is not None else {"path": source}
    key = id_ if id_ is not None else f"{source}\0{units[0].id}"
    return Thread(key=f"{FORMAT}:{key}", title=_title(first), format=FORMAT, source=origin, units=units)


def _title(first: Line) -> str | None:
    for block in spans.elements(first.members["blocks"]):
        if block.first == "{":
            text = text_of(spans.members(block), "text")
            if text is not None and text.strip():
                return text.strip().splitlines()[0][:72]
    return None

"""The record's own format as lines: what `saf export` writes, and messages as they are offered.

Rules. A line becomes a message byte for byte. Only the daemon's own fields of a stored line (`id`, `seq`,
`recorded_at`, `writer`, `prev_hash`) are taken off, by their span: another daemon sets its own. So an export that is
imported gives the same messages again.

A stored line is known by its id, an offered one by its place in the file. Where an id was imported before with
another text, or a place holds another text than at the import before, what is stored stays.
"""

from collections import Counter
from collections.abc import Sequence

from saf_client.formats.lines import AnyLine, Line, text_of
from saf_client.formats.transcript import BadLine, Exact, LeftOut, Thread, Transcript, title_of
from safd.model import spans
from safd.model.codec import DAEMON_FIELDS
from safd.model.messages import Role
from safd.model.spans import Span

FORMAT = "saf"

_DAMAGED = LeftOut(what="damaged message", why="it could not be read when it was exported; only its seq is known")
_OTHER = LeftOut(what="other line", why="neither a stored nor an offered message")
_TWICE = LeftOut(what="stored message", why="the file holds it twice")
_SAME_ID = LeftOut(what="stored message", why="another message of the same id stands before it")
_HEADS = LeftOut(what="stored message", why=f"without {', '.join(DAEMON_FIELDS)}: this daemon sets its own")


def recognises(line: Line) -> bool:
    blocks = line.members.get("blocks")
    roles = tuple(Role)
    return blocks is not None and blocks.first == "[" and text_of(line.members, "role") in roles


def read(lines: Sequence[AnyLine], source: str) -> Transcript:
    """One conversation. `source` (the file's path) names it where its first line has no id of its own."""
    units: list[Exact] = []
    left_out: Counter[LeftOut] = Counter()
    changed: Counter[LeftOut] = Counter()
    bad: list[BadLine] = []
    texts: dict[str, str] = {}
    first: Line | None = None
    for line in lines:
        if isinstance(line, BadLine):
            bad.append(line)
            continue
        if not recognises(line):
            left_out[_DAMAGED if "damaged" in line.members else _OTHER] += 1
            continue
        id_ = text_of(line.members, "id") or f"message:{len(texts)}"
        text = offered(line)
        if id_ in texts:
            left_out[_TWICE if texts[id_] == text else _SAME_ID] += 1
            continue
        first = first or line
        texts[id_] = text
        changed[_HEADS] += text != line.text
        units.append(Exact(id=id_, offset=line.offset, text=text))
    threads = () if first is None else (_thread(first, source, tuple(units)),)
    return Transcript(format=FORMAT, threads=threads, left_out=left_out, changed=+changed, bad=tuple(bad))


def offered(line: Line) -> str:
    """The line as it was offered: without the daemon's own fields."""
    if line.members.keys().isdisjoint(DAEMON_FIELDS):
        return line.text
    return _without_head(spans.members_in_place(line.span), line.span)


def _without_head(places: dict[str, Span], span: Span) -> str:
    """The object without the daemon's fields and the comma that each of them brought."""
    names = list(places)
    kept = [name for name in names if name not in DAEMON_FIELDS]
    head = names[: len(names) - len(kept)]
    if kept and all(name in DAEMON_FIELDS for name in head):
        return "{" + span.text[span.text.index(",", places[head[-1]].end) + 1 : span.end]
    return "{" + ",".join(f"{_quoted(places, span, name)}:{places[name]}" for name in kept) + "}"


def _quoted(places: dict[str, Span], span: Span, name: str) -> str:
    """The key as it was spelled: what stands between the member before and the colon."""
    names = list(places)
    at = names.index(name)
    begin = span.text.index(",", places[names[at - 1]].end) if at else span.start
    return span.text[begin + 1 : places[name].start].strip(" \t").removesuffix(":").rstrip(" \t")


def _thread(first: Line, source: str, units: tuple[Exact, ...]) -> Thread:
    id_ = text_of(first.members, "id")
    origin = {"first_id": id_} if id_ is not None else {"path": source}
    key = id_ if id_ is not None else f"{source}\0{first.text}"
    return Thread(key=f"{FORMAT}:{key}", title=_title(first), format=FORMAT, source=origin, units=units)


def _title(first: Line) -> str | None:
    for block in spans.elements(first.members["blocks"]):
        if block.first == "{":
            title = title_of(text_of(spans.members(block), "text") or "")
            if title is not None:
                return title
    return None

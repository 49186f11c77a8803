"""Claude Code's session files and its subagents' files (JSON lines, versions 2.1.x), and its streamed output.

Rules, each for something that real files do:

* File order is kept. `parentUuid` is a tree in which a rewind leaves dead branches and a compaction a second root:
  each line keeps its `parent`, the nearest earlier line that is in the record (`progress` and other lines that stand
  in the chain are passed over, `logicalParentUuid` counts where `parentUuid` is null). A branch is a view.
* One reply is written as several lines that share `message.id`, with results between them: one assistant message,
  where its first line stood. Usage and model are those of its last line.
* A call or a sealed thought that stands in two lines of one reply (a line was written again) is said once.
* Results ride in `type: user` lines: role tool where such a line holds nothing else.
* What a person typed while the model worked stands in an `attachment` line (`queued_command`): a user message.
* `isSidechain` lines, and in a stream those with a `parent_tool_use_id`, are a subagent's: a conversation of their
  own, never mixed into the parent.
* What the program itself said in the model's place (`<synthetic>`, API errors) never reaches a model and is not
  lost: a system message without blocks, which keeps the line.
* A file is named by the session of its first line. Lines of another session in it belong to the same conversation.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import attrs

from saf_client.formats.claude_blocks import SHOWN, Content, fits, usage_of
from saf_client.formats.lines import AnyLine, Line, is_true, text_of
from saf_client.formats.transcript import BadLine, LeftOut, Part, Said, Thread, Transcript, is_kept, title_of
from safd.model import spans
from safd.model.blocks import Block, Reasoning, Text, ToolResult, ToolUse
from safd.model.messages import Role
from safd.model.spans import Span

FORMAT = "claude-code"
PROVIDER = "anthropic"
SYNTHETIC = "<synthetic>"

_UI = "state of the program, not conversation"
LEFT_OUT = {
    "progress": "what hooks and running tools reported meanwhile; the parents of later lines are taken past it",
    "queue-operation": "typed input waiting for its turn; what was sent stands as a user line",
    "file-history-snapshot": "backups of edited files",
    "attachment": "context that the program added; how it was put to the model is not in the file",
    "system": "the program's own note",
    "summary": "a title that the program gave",
    "ai-title": "a title that the program gave",
    "custom-title": "a title that a person gave",
    "agent-name": _UI,
    "mode": _UI,
    "permission-mode": _UI,
    "last-prompt": _UI,
    "pr-link": _UI,
    "frame-link": _UI,
    "worktree-state": _UI,
    "relocated": _UI,
    "bridge-session": _UI,
    "started": _UI,
    "result": _UI,
    "atis-latch": _UI,
    "stream_event": "a reply while it was written; the whole reply stands as lines",
}
SYSTEM_LEFT_OUT = {
    "compact_boundary": "the place of a compaction; both sides are kept, the summary as the message that it was",
    "local_command": "what a local command printed; the model did not see it",
    "api_error": "a failed request; the model did not see it",
}
_UNKNOWN_LINE = "a kind of line that this importer does not know"
_TWICE = LeftOut(what="block said twice in one reply", why="taken once; both lines are kept")
_NOT_SENT = LeftOut(
    what="queue-operation",
    why="typed input that stands in no other line: withdrawn, or sent in a way the file does not tell",
)
_TOO_LONG = LeftOut(what="very long line", why="its message is taken; the line is kept by its hash and length only")
_CONVERSATION = ("user", "assistant")
_OURS = ("uuid", "sessionId", "session_id", "leafUuid", "messageId")
"""One of these stands in every line of this program; `type: result` alone stands in others' files too."""


def recognises(line: Line) -> bool:
    kind = text_of(line.members, "type")
    if not any(name in line.members for name in _OURS):
        return False
    if kind in _CONVERSATION:
        message = line.members.get("message")
        return message is not None and message.first == "{"
    return kind in LEFT_OUT


def read(lines: Sequence[AnyLine], source: str) -> Transcript:
    """The main conversation and one for each subagent. `source`, the file's path, names it where no line does."""
    reader = _Reader(source=source)
    for line in lines:
        if isinstance(line, BadLine):
            reader.bad.append(line)
        else:
            reader.take(line)
    threads = tuple(reader.threads())
    reader.check_queue(threads)
    return Transcript(
        format=FORMAT,
        threads=threads,
        left_out=reader.left_out,
        changed=reader.changed,
        bad=tuple(sorted(reader.bad, key=lambda bad: bad.offset)),
    )


@attrs.define(kw_only=True)
class _Reader:
    source: str
    bad: list[BadLine] = attrs.field(factory=list[BadLine])
    left_out: Counter[LeftOut] = attrs.field(factory=Counter[LeftOut])
    changed: Counter[LeftOut] = attrs.field(factory=Counter[LeftOut])
    session: str | None = None
    parents: dict[str, str | None] = attrs.field(factory=dict[str, "str | None"])
    sidechains: set[str] = attrs.field(factory=set[str])
    texts: dict[str, str] = attrs.field(factory=dict[str, str])
    typed: list[tuple[str, LeftOut]] = attrs.field(factory=list[tuple[str, LeftOut]])
    """What was typed while the model worked, by the queue's own lines."""
    taken: dict[str, list[tuple[str, Line]]] = attrs.field(
        factory=lambda: defaultdict[str, list[tuple[str, Line]]](list)
    )

    def take(self, line: Line) -> None:
        kind = text_of(line.members, "type")
        uuid = text_of(line.members, "uuid")
        self.session = self.session or text_of(line.members, "sessionId") or text_of(line.members, "session_id")
        if uuid is not None:
            parent = text_of(line.members, "parentUuid") or text_of(line.members, "logicalParentUuid")
            self.parents.setdefault(uuid, parent)
        if kind not in _CONVERSATION and _queued(line) is None:
            left_out = _left_out(line, kind)
            self.left_out[left_out] += 1
            if kind == "queue-operation" and (typed := text_of(line.members, "content")) is not None:
                self.typed.append((typed.strip(), left_out))
            return
        id_ = uuid or f"line:{len(self.texts)}"
        if id_ in self.texts:
            why = "the file holds it twice" if self.texts[id_] == line.text else "one of the same uuid stands before it"
            self.left_out[LeftOut(what=f"{kind} line", why=why)] += 1
        elif (reason := _unfit(line, kind)) is not None:
            self.bad.append(BadLine(offset=line.offset, reason=reason))
        else:
            self.texts[id_] = line.text
            if is_true(line.members, "isSidechain"):
                self.sidechains.add(id_)
            if not is_kept(line.text):
                self.changed[_TOO_LONG] += 1
            self.taken[self._thread(line, id_)].append((id_, line))

    def check_queue(self, threads: Sequence[Thread]) -> None:
        """Typed input is left out because it stands elsewhere: where it does not, the summary says so."""
        if not self.typed:
            return
        units = (unit for thread in threads for unit in thread.units if isinstance(unit, Said))
        blocks = (block for unit in units for part in unit.parts for block in part.blocks)
        said = {block.text.strip() for block in blocks if isinstance(block, Text)}
        for typed, left_out in self.typed:
            if typed not in said and not any(typed in text for text in said):
                self.left_out[left_out] -= 1
                self.left_out[_NOT_SENT] += 1
        self.left_out = +self.left_out

    def threads(self) -> Iterator[Thread]:
        for name, lines in self._rejoined().items():
            thread = _Thread(
                parents=self.parents,
                kept=frozenset(self.texts),
                changed=self.changed,
                content=Content(changed=self.changed),
            )
            units = thread.read(lines)
            source = {"path": self.source} if self.session is None else {"session": self.session}
            if name:
                source["subagent"] = name
            title = thread.title if not name else title_of(f"Subagent {name[:SHOWN]}: {thread.title or ''}")
            key = f"{FORMAT}:{self.session or self.source}" + (f"/{name}" if name else "")
            yield Thread(key=key, title=title, format=FORMAT, source=source, units=units)

    def _thread(self, line: Line, id_: str) -> str:
        """Empty for the main conversation; a subagent's id; or, in files without one, where its lines begin."""
        call = text_of(line.members, "parent_tool_use_id")
        if call is None and not is_true(line.members, "isSidechain"):
            return ""
        return text_of(line.members, "agentId") or call or f"?{id_}"

    def _rejoined(self) -> dict[str, list[tuple[str, Line]]]:
        """Sidechain lines without an agent's id belong to the sidechain that their parents lead to."""
        joined: dict[str, list[tuple[str, Line]]] = defaultdict(list)
        for name, lines in self.taken.items():
            joined[f"side-{self._root(name[1:])}" if name.startswith("?") else name].extend(lines)
        return {name: sorted(lines, key=lambda found: found[1].offset) for name, lines in joined.items()}

    def _root(self, uuid: str) -> str:
        seen: set[str] = set()
        root = uuid
        at: str | None = uuid
        while at is not None and at not in seen:
            seen.add(at)
            if at in self.sidechains:
                root = at
            at = self.parents.get(at)
        return root


@attrs.define(kw_only=True)
class _Thread:
    """One conversation's lines, in file order."""

    parents: dict[str, str | None]
    kept: frozenset[str]
    changed: Counter[LeftOut]
    content: Content
    title: str | None = None

    def read(self, lines: Sequence[tuple[str, Line]]) -> tuple[Said, ...]:
        units: list[Said] = []
        replies: dict[str, int] = {}
        for id_, line in lines:
            said = self._said(id_, line)
            at = replies.get(said.reply) if said.reply is not None else None
            if at is not None:
                units[at] = attrs.evolve(
                    units[at], parts=units[at].parts + said.parts, model=said.model or units[at].model
                )
                continue
            if said.reply is not None:
                replies[said.reply] = len(units)
            units.append(said)
        return tuple(self._once(unit) if unit.reply is not None else unit for unit in units)

    def _said(self, id_: str, line: Line) -> Said:
        timestamp = text_of(line.members, "timestamp")
        queued = _queued(line)
        if queued is not None:
            parts = (self._part(id_, line, self.content.blocks(queued, assistant=False)),)
            return Said(role=Role.USER, parts=parts, timestamp=timestamp)
        message = spans.members(line.members["message"])
        assistant = text_of(line.members, "type") == "assistant"
        model = text_of(message, "model") if assistant else None
        if assistant and (model == SYNTHETIC or is_true(line.members, "isApiErrorMessage")):
            why = "the program's own words in the model's place, such as a failed request: never the model's turn"
            self.changed[LeftOut(what="assistant line of the program", why=f"kept without blocks: {why}")] += 1
            return Said(role=Role.SYSTEM, parts=(self._part(id_, line, ()),), timestamp=timestamp, unsaid=why)
        blocks = self.content.blocks(message["content"], assistant=assistant)
        part = self._part(id_, line, blocks)
        if assistant:
            return Said(
                role=Role.ASSISTANT,
                parts=(attrs.evolve(part, usage=usage_of(message)),),
                reply=text_of(message, "id"),
                model=model,
                provider=PROVIDER,
                timestamp=timestamp,
            )
        self._entitle(line, blocks)
        only_results = bool(blocks) and all(isinstance(block, ToolResult) for block in blocks)
        return Said(role=Role.TOOL if only_results else Role.USER, parts=(part,), timestamp=timestamp)

    def _part(self, id_: str, line: Line, blocks: tuple[Block, ...]) -> Part:
        return Part(id=id_, offset=line.offset, text=line.text, parent=self._parent(line), blocks=blocks)

    def _once(self, reply: Said) -> Said:
        """A reply without what it says a second time."""
        said: set[Block] = set()
        parts: list[Part] = []
        for part in reply.parts:
            blocks: list[Block] = []
            for block in part.blocks:
                if block in said:
                    self.changed[_TWICE] += 1
                    continue
                if isinstance(block, ToolUse) or (isinstance(block, Reasoning) and (block.signature or block.redacted)):
                    said.add(block)
                blocks.append(block)
            parts.append(attrs.evolve(part, blocks=tuple(blocks)))
        return attrs.evolve(reply, parts=tuple(parts))

    def _entitle(self, line: Line, blocks: Sequence[Block]) -> None:
        if self.title is None and not is_true(line.members, "isMeta"):
            titles = (title_of(block.text) for block in blocks if isinstance(block, Text))
            self.title = next((title for title in titles if title is not None), None)

    def _parent(self, line: Line) -> str | None:
        at = text_of(line.members, "parentUuid") or text_of(line.members, "logicalParentUuid")
        seen: set[str] = set()
        while at is not None and at not in self.kept and at not in seen:
            seen.add(at)
            at = self.parents.get(at)
        return at if at in self.kept else None


def _queued(line: Line) -> Span | None:
    """What a person typed while the model worked; None for every other line."""
    found = line.members.get("attachment")
    if text_of(line.members, "type") != "attachment" or found is None or found.first != "{":
        return None
    members = spans.members(found)
    prompt = members.get("prompt")
    return prompt if text_of(members, "type") == "queued_command" and fits(prompt) else None


def _left_out(line: Line, kind: str | None) -> LeftOut:
    if kind is None:
        return LeftOut(what="line without a type", why=_UNKNOWN_LINE)
    why = LEFT_OUT.get(kind, _UNKNOWN_LINE)
    if kind == "system":
        subtype = text_of(line.members, "subtype") or "no subtype"
        return LeftOut(what=f"system/{subtype[:SHOWN]}", why=SYSTEM_LEFT_OUT.get(subtype, why))
    found = line.members.get("attachment")
    if kind == "attachment" and found is not None and found.first == "{":
        return LeftOut(what=f"attachment/{(text_of(spans.members(found), 'type') or 'no type')[:SHOWN]}", why=why)
    return LeftOut(what=kind[:SHOWN], why=why)


def _unfit(line: Line, kind: str | None) -> str | None:
    """Why a conversation line cannot be read as one; None where it can."""
    if kind not in _CONVERSATION:
        return None
    message = line.members.get("message")
    if message is None or message.first != "{":
        return f"{kind} line without a message"
    return None if fits(spans.members(message).get("content")) else f"{kind} line whose message has no content"

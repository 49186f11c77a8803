"""kill -9 of the real daemon under writers: nothing acknowledged is lost, nothing is doubled, nothing is torn."""

import hashlib
import json
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import attrs
import pytest

from safd.model import spans
from tests.daemon import Daemon, Fault, Line, running

ROUNDS = int(os.environ.get("SAFD_KILL_ROUNDS", "3"))
WRITERS = 8


@attrs.define
class Writer:
    """One client: what it had acknowledged, and the append that was under way when the daemon died."""

    number: int
    conversation: str
    acknowledged: list[tuple[int, list[str]]] = attrs.field(factory=list)
    under_way: tuple[str, list[str]] | None = None
    offers: list[str] = attrs.field(factory=list)
    """What was found stored so far, as digests."""
    last: str = ""

    def write(self, daemon: Daemon, enough: threading.Semaphore, seed: int) -> None:
        rng = random.Random(f"{seed}-{self.number}")
        with daemon.connect() as line:
            while True:
                texts = [self.message(rng) for _ in range(rng.choice([1, 1, 1, 3, 8]))]
                key = f"{seed}-{self.number}-{rng.randbytes(8).hex()}"
                self.under_way = (key, texts)
                try:
                    receipt = append(line, self.conversation, key, texts)
                except OSError:
                    return
                except (EOFError, ValueError):
                    return
                self.acknowledged.append((receipt["first_seq"], list(map(digest, texts))))
                self.under_way = None
                enough.release()

    def message(self, rng: random.Random) -> str:
        body = "x" * rng.choice([10, 200, 5000, 60_000])
        return f'{{"role": "user", "blocks": [{{"type": "text", "text": "{rng.randbytes(6).hex()} {body}"}}]}}'


def append(line: Line, conversation: str, key: str, texts: list[str]) -> dict[str, int]:
    params = f'{{"conversation":"{conversation}","idempotency_key":"{key}","messages":[{",".join(texts)}]}}'
    return line.call("conversation.append", params.encode())


def stored_texts(line: Line, conversation: str, after: int) -> list[str]:
    """The record behind `after` as exact texts, read in pages."""
    found: list[str] = []
    while True:
        asked = {"conversation": conversation, "after": after + len(found), "limit": 1000}
        text = line.exact("conversation.messages", asked).decode().rstrip("\n")
        result = spans.members(spans.members(spans.whole(text))["result"])
        page = [str(each) for each in spans.elements(result["data"])]
        found += page
        if not page or str(result["has_more"]) == "false":
            return found


def offered(stored: str) -> str:
    """The offered text inside a stored one: what follows `prev_hash`."""
    members = list(spans.members_in_place(spans.whole(stored)).values())
    return "{" + stored[members[4].end :].partition(",")[2]


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def verify(writer: Writer, line: Line, *, whole: bool) -> None:
    """Every acknowledged append stands where it was acknowledged, whole, once; the chain holds from first to last.

    What was found in an earlier round is read again only where the `whole` record is asked for.
    """
    if whole:
        before, writer.offers = writer.offers, []
        writer.last = digest(writer.conversation)
    else:
        before = writer.offers.copy()
    for text in stored_texts(line, writer.conversation, len(writer.offers)):
        message = json.loads(text)
        assert (message["seq"], message["prev_hash"]) == (len(writer.offers) + 1, writer.last)
        writer.last = digest(text)
        writer.offers.append(digest(offered(text)))
    assert writer.offers[: len(before)] == before
    assert len(set(writer.offers)) == len(writer.offers)
    for first, sent in writer.acknowledged:
        assert writer.offers[first - 1 : first - 1 + len(sent)] == sent
    assert sum(len(sent) for _, sent in writer.acknowledged) == len(writer.offers)


@pytest.mark.slow
@pytest.mark.timeout(60 + 30 * ROUNDS)
def test_kill_under_writers(tmp_path: Path) -> None:
    """Round by round on one store: kill -9 amid appends, start again, compare with what every client was told."""
    writers: list[Writer] = []
    for turn in range(ROUNDS):
        with running(tmp_path) as daemon:
            with daemon.connect() as line:
                for number in range(len(writers), WRITERS):
                    made = line.call("conversation.create", {})["conversation"]["id"]
                    writers.append(Writer(number, made, last=digest(made)))
            enough = threading.Semaphore(0)
            threads = [threading.Thread(target=each.write, args=(daemon, enough, turn)) for each in writers]
            for thread in threads:
                thread.start()
            for _ in range(random.Random(turn).randint(20, 300)):
                assert enough.acquire(timeout=60)
            daemon.kill()
            for thread in threads:
                thread.join(60)
                assert not thread.is_alive()
        with running(tmp_path) as daemon, daemon.connect() as line:
            for writer in writers:
                settle(line, writer)
                verify(writer, line, whole=turn == ROUNDS - 1)
            assert daemon.stop() == 0
    check = [sys.executable, "-m", "safd", "check", "--store", str(tmp_path / "store" / "record.db")]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def settle(line: Line, writer: Writer) -> None:
    """Send again what was under way, with its key: it is stored exactly once, whether or not it had been."""
    if writer.under_way is None:
        return
    key, texts = writer.under_way
    before = line.call("conversation.get", {"conversation": writer.conversation})["conversation"]["head_seq"]
    receipt = append(line, writer.conversation, key, texts)
    assert append(line, writer.conversation, key, texts) == receipt
    with pytest.raises(Fault) as caught:
        append(line, writer.conversation, key, [*texts, texts[0]])
    assert caught.value.code == "idempotency_key_reused"
    after = line.call("conversation.get", {"conversation": writer.conversation})["conversation"]["head_seq"]
    assert after in (before, before + len(texts))
    assert receipt["last_seq"] - receipt["first_seq"] + 1 == len(texts)
    writer.acknowledged.append((receipt["first_seq"], list(map(digest, texts))))
    writer.under_way = None

"""kill -9 at any moment: what was acknowledged is there, once, in order, and nothing is torn."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from safd.model.ids import ConversationId
from safd.store.check import check
from safd.store.port import Row
from tests.contracts.world import offered_part, opened, said, whole

ROUNDS = int(os.environ.get("SAFD_KILL_ROUNDS", "10"))
CHILD = Path(__file__).with_name("appender.py")


def _run_and_kill(path: Path, after_s: float) -> list[tuple[str, int, str]]:
    """Let eight tasks append until the process is killed; what it acknowledged, in the order of its pipe."""
    with subprocess.Popen([sys.executable, CHILD, path], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        assert first, "the appender did not start"
        time.sleep(after_s)
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read()
    assert child.returncode == -signal.SIGKILL
    lines = (first + rest).decode().split("\n")[:-1]  # what follows the last line end was torn by the kill
    return [(conversation, int(seq), word) for conversation, seq, word in map(str.split, lines)]


@pytest.mark.timeout(60 + 10 * ROUNDS)
@pytest.mark.trio
async def test_no_kill_loses_or_doubles_or_tears_anything(tmp_path: Path) -> None:
    """Over many kills of one store at random moments, every acknowledged message stays, exactly once, in order."""
    path = tmp_path / "s.db"
    moments = random.Random(20261201)
    acknowledged: dict[tuple[str, int], str] = {}
    for _ in range(ROUNDS):
        for conversation, seq, word in _run_and_kill(path, moments.uniform(0, 0.12)):
            assert (conversation, seq) not in acknowledged
            acknowledged[conversation, seq] = word
        report = check(path, lambda done, total: None)
        assert report.clean, report.lines()
    assert len(acknowledged) > ROUNDS
    async with opened(path) as store:
        for conversation in {conversation for conversation, _ in acknowledged}:
            rows = (await whole(store, ConversationId(conversation))).rows
            assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
            words = [
                re.findall(rb"w[0-9a-f]{16}", offered_part(row))[0].decode() for row in rows if isinstance(row, Row)
            ]
            assert len(set(words)) == len(words) == len(rows)
            for (id_, seq), word in acknowledged.items():
                if id_ == conversation:
                    assert offered_part(rows[seq - 1]).decode() == said(word)

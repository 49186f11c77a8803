"""What the client's tests share: a fake daemon on a socket of its own, and the real session files where they stand."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.client.fake_daemon import FakeDaemon, fake_daemon


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[FakeDaemon]:
    with fake_daemon(tmp_path) as found:
        yield found


@pytest.fixture
def corpora() -> Path:
    """Real session files: $SAFD_CORPORA, or where they stand beside the checkout."""
    named = os.environ.get("SAFD_CORPORA")
    places = [Path(named)] if named else [ROOT.parent / "shared" / "corpora"]
    for place in places:
        if (place / "claude-code" / "session.jsonl").is_file():
            return place
    pytest.skip(f"no real session files at {', '.join(map(str, places))} ($SAFD_CORPORA names another place)")

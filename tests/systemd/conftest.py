"""One machine for all tests of this folder: the shipped units, the tree under test, two agents and a person."""

import json
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import ROOT
from tests.systemd.machine import Done, Machine, booted, unfit

UNITS = ROOT / "systemd"
SAFD, SAF = "/opt/safd/bin/safd", "/opt/safd/bin/saf"
AGENT = f"""#!/bin/sh
exec {SAF} --json --agent "$(basename "$(dirname "$0")")" whoami > "${{STATE_DIRECTORY:-$HOME}}/seen"
"""


def wrapper(module: str) -> str:
    """Our interpreter, wherever it stands here; its own library must be found before the machine's of another build."""
    python = f"/opt/python/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    return (
        "#!/bin/sh\n"
        "export LD_LIBRARY_PATH=/opt/python/lib PYTHONPATH=/opt/tree:/opt/tree/client:/opt/site\n"
        "export PYTHONDONTWRITEBYTECODE=1\n"
        f'exec {python} -m {module} "$@"\n'
    )


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    """Root's part of the installation done, as the page on operations says; the daemon not started yet."""
    why = unfit()
    if why is not None:
        pytest.skip(why)
    files: dict[str, str | Path] = {
        SAFD: wrapper("safd"),
        SAF: wrapper("saf_client"),
        "/opt/saf-agents/annie/run": AGENT,
        "/opt/saf-agents/kitty/run": AGENT,
    }
    files |= {f"/etc/systemd/system/{unit.name}": unit for unit in (UNITS / "system").iterdir()}
    files |= {f"/etc/systemd/user/{unit.name}": unit for unit in (UNITS / "user").iterdir()}
    files |= {f"/etc/sysusers.d/{file.name}": file for file in (UNITS / "sysusers.d").iterdir()}
    files |= {f"/etc/tmpfiles.d/{file.name}": file for file in (UNITS / "tmpfiles.d").iterdir()}
    binds = {
        "/opt/python": Path(sys.base_prefix),
        "/opt/site": Path(sysconfig.get_path("purelib")),
        "/opt/tree": ROOT,
    }
    with booted(files, binds) as found:
        found.must("systemd-sysusers", "safd.conf")
        found.must("systemd-tmpfiles", "--create", "safd.conf")
        found.must("useradd", "--system", "--user-group", "annie")
        found.begin_person("casey")
        found.must(SAF, "admit", "annie", *("--account", "annie", "--mode", "resident", "--no-new-privs"), *UNIT, *HERE)
        found.must(SAF, "admit", "kitty", "--account", "casey", "--mode", "borrowed")
        found.must("systemctl", "start", "safd.socket")
        yield found


UNIT = ("--unit", "saf-agent@annie.service")
HERE = ("--node", "here")
WHOAMI = (SAF, "--json", "whoami")


def principal(done: Done) -> Any:
    """What `saf --json whoami` was told."""
    assert done.code == 0, done
    return json.loads(done.out)["principal"]


def kinds(found: Any) -> list[str]:
    return [one["kind"] for one in found["drift"]]

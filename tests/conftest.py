"""What every test run shares: the tree under test also for child processes, Hypothesis profiles, the root marker."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parent.parent

# child processes (`python -m safd`) run this tree too, whichever way the package was installed
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT), str(ROOT / "client"), *filter(None, [os.environ.get("PYTHONPATH")])]
)

_noisy = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=_noisy)
settings.register_profile("ci", max_examples=200, deadline=None, suppress_health_check=_noisy, print_blob=True)
settings.register_profile("long", max_examples=5000, deadline=None, suppress_health_check=_noisy, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.geteuid() == 0:
        return
    skip = pytest.mark.skip(reason="needs root: several real users")
    for item in items:
        if item.get_closest_marker("root") is not None:
            item.add_marker(skip)

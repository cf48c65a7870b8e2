"""Suite-wide settings: Hypothesis is derandomized, so that a run of the suite depends on nothing but the code."""

import os

os.environ.setdefault("TRITON_INTERPRET", "0" if os.environ.get("STALEROW_TEST_DEVICE") == "cuda" else "1")

from hypothesis import HealthCheck, settings

settings.register_profile(
    "suite", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("suite")

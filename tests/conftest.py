"""Suite-wide settings: Hypothesis is derandomized, so that a run of the suite depends on nothing but the code.

Triton kernels run compiled for the host, or as STALEROW_TEST_DEVICE says: "interpreter" or "cuda".
"""

import os

os.environ.setdefault("TRITON_INTERPRET", "1" if os.environ.get("STALEROW_TEST_DEVICE") == "interpreter" else "0")

from hypothesis import HealthCheck, settings

settings.register_profile(
    "suite", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("suite")

"""The engine: what the serving engine's core decides, step by step, before any GPU work.

In: requests, aborts and the tokens that the sampler returned. Out: `Step` values, which every rank replays.
Nothing here knows about ranks, kernels or memory contents.
"""

from stalerow.simulator.engine.config import EngineConfig, GroupConfig
from stalerow.simulator.engine.core import Delivered, EngineCore
from stalerow.simulator.engine.policies import Policies
from stalerow.simulator.engine.profiles import Profile, profile, profile_names
from stalerow.simulator.engine.step import CachedBlock, CachedRequest, NewRequest, ScheduledRow, Step

__all__ = [
    "CachedBlock",
    "CachedRequest",
    "Delivered",
    "EngineConfig",
    "EngineCore",
    "GroupConfig",
    "NewRequest",
    "Policies",
    "Profile",
    "ScheduledRow",
    "Step",
    "profile",
    "profile_names",
]

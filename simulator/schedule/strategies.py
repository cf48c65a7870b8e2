"""Hypothesis strategies for schedules, and the settings to run properties with.

Schedules are drawn through the generator that seeds use, so Hypothesis shrinks towards fewer requests, fewer tokens, a
smaller P and K and the fewest deviations from canonical order.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis import strategies as st
from hypothesis.database import (
    DirectoryBasedExampleDatabase,
    ExampleDatabase,
    GitHubArtifactDatabase,
    MultiplexedDatabase,
    ReadOnlyDatabase,
)

from stalerow.simulator.schedule.choosers.hypothesis import HypothesisChooser
from stalerow.simulator.schedule.draw import Runner
from stalerow.simulator.schedule.generate import generate
from stalerow.simulator.schedule.values import Schedule

SETTINGS = ("ci", "fuzz", "nightly")


@st.composite
def schedules(draw: Any, pp: int | None = None, runner: Runner | None = None) -> Schedule:
    """Whole schedules with their order of events. `pp` and `runner` fix what would be drawn otherwise."""
    return generate(HypothesisChooser(draw), pp, runner)


def load_settings(name: str) -> settings:
    """Make one of `SETTINGS` Hypothesis' current settings.

    ci: derandomized, 60 examples, prints what reproduces a failure. fuzz: explores, 500 examples, keeps failures in the
    example database. nightly: 5000 examples, every distinct failure.

    With STALEROW_DATABASE set, fuzz and nightly share their examples with whoever names the same one: a folder, or a
    Redis server as redis://HOST:PORT. With GITHUB_TOKEN and GITHUB_REPOSITORY set they also start from the examples
    that the repository's workflow kept as an artifact. Raises ValueError for settings or a database that is not known.
    """
    common: dict[str, Any] = {
        "deadline": None,
        "derandomize": False,
        "print_blob": True,
        "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    }
    if name == "ci":
        # Without the explain phase, which runs a failure many more times to say which lines it ran.
        phases = (Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink)
        chosen = settings(
            max_examples=60,
            database=None,
            phases=phases,
            report_multiple_bugs=False,
            **common | {"derandomize": True},
        )
    elif name == "fuzz":
        chosen = settings(max_examples=500, database=_database(), report_multiple_bugs=False, **common)
    elif name == "nightly":
        chosen = settings(
            max_examples=5000, database=_database(), phases=tuple(Phase), verbosity=Verbosity.normal, **common
        )
    else:
        raise ValueError(f"settings {name!r} are not known: give one of {', '.join(SETTINGS)}")
    settings.register_profile(f"stalerow-{name}", chosen)
    settings.load_profile(f"stalerow-{name}")
    return chosen


def _database() -> ExampleDatabase:
    """The project's own examples, and with them those that are shared."""
    used: list[ExampleDatabase] = [DirectoryBasedExampleDatabase(".hypothesis/examples")]
    named = os.environ.get("STALEROW_DATABASE", "")
    if named.startswith(("redis://", "rediss://")):
        used.append(_redis(named))
    elif "://" in named:
        raise ValueError(f"STALEROW_DATABASE={named}: give a folder, or redis://HOST:PORT")
    elif named:
        used.append(DirectoryBasedExampleDatabase(named))
    owner, _, repository = os.environ.get("GITHUB_REPOSITORY", "").partition("/")
    if os.environ.get("GITHUB_TOKEN") and repository:
        kept = GitHubArtifactDatabase(owner, repository, artifact_name="stalerow-examples")
        used.append(ReadOnlyDatabase(kept))
    return used[0] if len(used) == 1 else MultiplexedDatabase(*used)


def _redis(address: str) -> ExampleDatabase:
    try:
        import redis
        from hypothesis.extra.redis import RedisExampleDatabase
    except ImportError:
        raise ValueError(f"STALEROW_DATABASE={address}: needs the package redis: pip install redis") from None
    return RedisExampleDatabase(redis.Redis.from_url(address))

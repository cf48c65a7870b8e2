"""What the child does once: import the engine, stand in for the GPU, and read the configuration of a tiny model."""

from __future__ import annotations

import copy
import importlib
import inspect
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from stalerow.simulator.worker.inside import kernels, shims

MODEL_LEN = 4096

DISPENSABLE = (
    "long_prefill_token_threshold_adaptive",
    "max_num_active_seqs",
    "enable_mamba_shared_prefix_checkpoint",
)
"""Options of later releases that a schedule may ask for; one without them goes its own way there."""


@dataclass(slots=True)
class Engine:
    """The imported engine: `api` as `conform.driver_vllm` collects it, `steps` the driver of its scheduler."""

    version: str
    api: Any
    steps: Any
    model_folder: str
    folder: tempfile.TemporaryDirectory[str]


def warm_up() -> Engine:
    compiled = kernels.before_import()
    shims.before_import()
    driver, vllm_driver, steps = _drivers()
    folder = tempfile.TemporaryDirectory(prefix="stalerow-worker-")
    driver.prepare_folder(Path(folder.name))
    api = vllm_driver.import_vllm()
    _one_process_group()
    api.config = _remembering(api, folder.name)
    shims.after_import()
    kernels.install(compiled)
    return Engine(str(api.version), api, steps, folder.name, folder)


def _drivers() -> list[Any]:
    """The modules that drive a released scheduler; they are files of their own, with a flat name each."""
    import stalerow.simulator

    folder = os.path.join(stalerow.simulator.__path__[0], "conform")
    sys.path.insert(0, folder)
    steps = importlib.import_module("driver_steps")  # brings the others
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != os.path.abspath(folder)]
    return [sys.modules["driver"], sys.modules["driver_vllm"], steps]


def _one_process_group() -> None:
    """The groups that every worker has; the pipeline's own is put in place for each run."""
    import vllm.distributed.parallel_state as parallel
    from vllm.config import VllmConfig, set_current_vllm_config

    with tempfile.TemporaryDirectory(prefix="stalerow-group-") as folder, set_current_vllm_config(VllmConfig()):
        parallel.init_distributed_environment(1, 0, f"file://{folder}/store", 0, "gloo")
        parallel.initialize_model_parallel()


def _remembering(api: Any, model_folder: str) -> SimpleNamespace:
    """The engine's configuration classes, with the model's read once: that takes seconds, a copy milliseconds."""
    classes = {name: getattr(api.config, name) for name in dir(api.config) if name.endswith("Config")}
    config = SimpleNamespace(**classes)
    for name in ("CacheConfig", "SchedulerConfig", "SpeculativeConfig"):
        setattr(config, name, _without_unknown(classes[name]))
    made = api.config.ModelConfig(
        model=model_folder, skip_tokenizer_init=True, max_model_len=MODEL_LEN, dtype="bfloat16", enforce_eager=True
    )

    def model_config(**options: Any) -> Any:
        mine = copy.deepcopy(made)
        mine.max_model_len = options["max_model_len"]
        return mine

    config.ModelConfig = model_config
    return config


def _without_unknown(cls: Any) -> Any:
    """Make a configuration without the options that this release does not have yet, if they are off or dispensable."""
    signature = inspect.signature(cls)
    known = signature.parameters

    def make(**options: Any) -> Any:
        taken = {n: value for n, value in options.items() if n in known or (value and n not in DISPENSABLE)}
        return cls(**taken)

    # Whoever makes one asks the class which options it has.
    make.__signature__ = signature  # type: ignore[attr-defined]
    return make

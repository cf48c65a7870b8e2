"""How the engine's Triton kernels run on the host: compiled from Triton's IR where that can be done, else interpreted.

Compiled launches touch what they are given and what the rank in charge says its pointer tables reach, and nothing else;
anything else is an error that names the kernel's file and line. Every launch is told to the device's observer.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import types
from typing import Any

from stalerow.simulator.worker.inside import device

reachable: list[Any] = []
"""Regions that addresses held in the current rank's tensors may point into."""


def before_import() -> bool:
    """Choose, before Triton decorates the engine's kernels; whether they will be compiled."""
    compiled = (
        bool(importlib.util.find_spec("llvmlite") and importlib.util.find_spec("stalerow.kernels.compiled"))
        and os.environ.get("STALEROW_INTERPRET") != "1"
    )
    if compiled:
        importlib.import_module("stalerow.simulator.worker.inside.libdevice").install()
    else:
        os.environ["TRITON_INTERPRET"] = "1"
    return compiled


def install(compiled: bool) -> None:
    """Take over launches, once, before the first one."""
    (_compile if compiled else _interpret)()


def _compile() -> None:
    import torch
    from triton.runtime.jit import JITFunction

    reaches = importlib.import_module("stalerow.kernels.base.memory").reaches
    launch = importlib.import_module("stalerow.kernels.compiled.launch").launch

    def run(self: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> None:
        if warmup:
            return
        for value in (*args, *kwargs.values()):
            if isinstance(value, torch.Tensor) and value.element_size() == 8:
                reaches(value, reachable)
        launch(self, grid, args, kwargs)
        device.launched(self.__name__)

    JITFunction.run = run


def _interpret() -> None:
    from triton.runtime import interpreter

    _keep_the_language_patched(interpreter)
    real = interpreter.InterpretedFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        result = real(self, *args, grid=grid, warmup=warmup, **kwargs)
        if not warmup:
            device.launched(self.__name__)
        return result

    interpreter.InterpretedFunction.run = run


def _keep_the_language_patched(interpreter: Any) -> None:
    """The interpreter patches and restores `triton.language` for every call, a tenth of a launch's time."""
    import triton.language as tl

    patch_language, patched = interpreter._patch_lang, dict[Any, Any]()
    nothing = types.SimpleNamespace(restore=lambda: None)

    def patch(function: Any) -> Any:
        languages = patched.get(id(function.__globals__))
        if languages is None:
            used = (v for v in function.__globals__.values() if inspect.ismodule(v) and v in (tl, tl.core))
            languages = patched[id(function.__globals__)] = frozenset(map(id, used))
        if languages not in patched:
            patched[languages] = patch_language(function)
        return nothing

    interpreter._patch_lang = patch


def regions_of(holder: Any, pool: Any) -> list[Any]:
    """The cache, and every tensor that `holder` (the worker's block tables) keeps, as regions with names."""
    import torch

    region = getattr(importlib.import_module("stalerow.kernels.base.memory"), "Region", None)
    if region is None:
        return []
    found = [region(pool, "the KV cache")]
    for name, value in vars(holder).items():
        for number, item in enumerate(value if isinstance(value, list | tuple) else [value]):
            tensor = getattr(item, "gpu", item)
            if isinstance(tensor, torch.Tensor):
                found.append(region(tensor, f"{name}[{number}]"))
    return found

"""What must be in place before the engine is imported on a machine without an accelerator.

No file of the engine is edited. Replaced are: whether Triton counts as available, streams and events of `torch.cuda`,
pinned and device-visible host memory, and memory queries of `torch.accelerator`. Streams and events come from `device`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import sys
import types
from typing import Any

from stalerow.simulator.worker.inside import device

HIDDEN = ("torchvision", "torchaudio", "torchcodec")
"""Companions of torch whose builds in CPU environments often cannot be loaded; the engine takes them for absent."""


def before_import() -> None:
    os.environ.update(
        HF_HUB_OFFLINE="1",
        VLLM_USE_V2_MODEL_RUNNER="1",
        VLLM_LOGGING_LEVEL="ERROR",
        VLLM_TARGET_DEVICE="cpu",
    )
    _hide()
    _name_the_cpu_platform()
    import torch
    import triton.backends as backends

    torch.set_num_threads(1)
    driver = type("Driver", (), {"is_active": staticmethod(lambda: False)})
    compiler = type("Compiler", (), {"supports_target": staticmethod(lambda _: False)})
    backends.backends.setdefault("cpu", types.SimpleNamespace(driver=driver, compiler=compiler))
    _streams(torch)
    _memory(torch)


def _hide() -> None:
    find_spec = importlib.util.find_spec

    def without_hidden(name: str, package: str | None = None) -> Any:
        return None if name.split(".")[0] in HIDDEN else find_spec(name, package)

    class Refuse:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
            if name.split(".")[0] in HIDDEN:
                raise ModuleNotFoundError(f"{name} is hidden", name=name)

    importlib.util.find_spec = without_hidden
    sys.meta_path.insert(0, Refuse())


def _name_the_cpu_platform() -> None:
    """The engine picks its platform by the installed version's suffix; an overlay of files has none."""
    installed = importlib.metadata.version
    spec = importlib.util.find_spec("vllm")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("no module named vllm in this environment")
    found = "0"
    for folder in spec.submodule_search_locations:
        path = os.path.join(folder, "_version.py")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                match = re.search(r"version = '([^'+]+)", file.read())
            found = match[1] if match else found
            break

    def version(name: str) -> str:
        return found + "+cpu" if name == "vllm" else installed(name)

    vars(importlib.metadata)["version"] = version


def _streams(torch: Any) -> None:
    torch.Event = torch.cuda.Event = device.Event
    torch.cuda.Stream = device.Stream
    torch.cuda.current_stream = device.current_stream
    torch.cuda.set_stream = device.set_stream
    torch.cuda.stream = device.on_stream
    torch.accelerator.synchronize = torch.cuda.synchronize = lambda *_, **__: device.synchronize()
    torch.Tensor.record_stream = lambda *_, **__: None


def _memory(torch: Any) -> None:
    torch.accelerator.empty_cache = torch.cuda.empty_cache = lambda *_, **__: None
    torch.accelerator.get_memory_info = torch.cuda.mem_get_info = lambda *_, **__: (1 << 34, 1 << 34)
    torch.Tensor.pin_memory = lambda self, *_, **__: self

    def unpinned(make: Any) -> Any:
        def made(*args: Any, pin_memory: Any = None, **kwargs: Any) -> Any:
            return make(*args, **kwargs)

        return made

    for name in ("zeros", "empty", "tensor", "full", "ones"):
        setattr(torch, name, unpinned(getattr(torch, name)))


def after_import() -> None:
    """Host memory that the device can see is host memory here; a check for CUDA tensors is told what it asks for."""
    import torch
    import vllm.model_executor.models as models
    import vllm.utils.torch_utils as torch_utils
    import vllm.v1.worker.gpu.buffer_utils as buffer_utils
    import vllm.v1.worker.mamba_utils as mamba_utils

    for module in (torch_utils, buffer_utils):
        for name in ("get_accelerator_view_from_cpu_tensor", "get_cuda_view_from_cpu_tensor"):
            if hasattr(module, name):
                setattr(module, name, device.visible_to_device)
    # The model that runs here is made for pipelines, whatever the release's own of this name is.
    models.ModelRegistry.is_pp_supported_model = lambda *_: True
    for name in ("is_uva_available", "is_pin_memory_available"):
        if hasattr(buffer_utils, name):
            setattr(buffer_utils, name, lambda: True)
    context = mamba_utils.MambaSpecDecodeGPUContext
    aligned = getattr(context, "compute_aligned_state_indices", None)
    if aligned is None:
        return

    def compute_aligned_state_indices(self: Any, *args: Any, **kwargs: Any) -> Any:
        torch.Tensor.is_cuda = property(lambda _: True)
        try:
            return aligned(self, *args, **kwargs)
        finally:
            del torch.Tensor.is_cuda

    context.compute_aligned_state_indices = compute_aligned_state_indices

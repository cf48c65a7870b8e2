"""Kernel sets by name, and what choosing one imports and refuses."""

import subprocess
import sys

import pytest

from stalerow.kernels.base.device import DeviceError
from stalerow.kernels.own.devices import backend
from stalerow.kernels.sets import KERNEL_SETS, UnknownKernelSet, kernel_set


def run_python(code: str, **env: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_built_in_set_can_be_made(device):
    for name in KERNEL_SETS:
        kernels = kernel_set(name, "cpu" if name.startswith("reference") else device)
        assert kernels.name == name
        assert kernels.align.name == name
        assert kernels.align.reads_slot_tables == name.endswith("req-idx")


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UnknownKernelSet, match=r"did you mean 'req-idx'\? expected one of req-idx, batch-row"):
        kernel_set("req-id", "cpu")


def test_the_reference_stays_on_the_host():
    with pytest.raises(DeviceError, match="runs on the host, but device 'cuda' was asked for"):
        kernel_set("reference:req-idx", "cuda")
    assert kernel_set("reference:req-idx", "auto").backend.name == "numpy"


def test_an_unknown_device_is_refused():
    with pytest.raises(DeviceError, match="unknown device 'tpu'; expected one of 'auto', 'cpu', 'interpreter', 'cuda'"):
        backend("tpu")


def test_the_reference_imports_neither_torch_nor_triton():
    code = (
        "import sys; from stalerow.kernels.sets import kernel_set; kernel_set('reference:req-idx');"
        "print(sorted({'torch', 'triton'} & set(sys.modules)))"
    )
    assert run_python(code) == "[]"


BACKEND = "from stalerow.kernels.sets import kernel_set; print(kernel_set('req-idx', {!r}).backend.name)"


def test_a_cpu_compiles_and_the_interpreter_is_chosen_before_triton_is_imported():
    assert run_python(BACKEND.format("cpu")) == "triton-cpu"
    assert run_python(BACKEND.format("interpreter")) == "triton-interpreter"
    assert run_python(BACKEND.format("cpu"), TRITON_INTERPRET="1") == "triton-interpreter"


def test_without_llvmlite_one_line_says_so_and_the_interpreter_runs():
    code = "import sys; sys.modules['llvmlite'] = None; " + BACKEND.format("cpu")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={}, check=True)
    assert done.stdout.strip() == "triton-interpreter"
    assert done.stderr.count("\n") == 1
    assert "pip install llvmlite" in done.stderr


def test_a_triton_that_compiles_already_cannot_interpret():
    code = (
        "import triton; from stalerow.kernels.own.devices import DeviceError, backend\n"
        "try: backend('interpreter')\n"
        "except DeviceError as error: print(error)"
    )
    assert "triton is already compiling in this process" in run_python(code)

"""From LLVM IR to machine code of this host, and from machine code to something callable."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from stalerow.kernels.compiled.errors import MissingCompiler

Run = Callable[[bytes], int]
"""Runs a grid; takes the words described in `sites`, returns 0 or 1 after a failure."""

_RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p)


class Interleaved(NamedTuple):
    """The functions of a kernel in the form of `coroutines`, and the memory that each program has to be given."""

    start: Callable[[int, int, int, int, int, int], int]
    advance: Callable[[int, int, int], None]
    drop: Callable[[int], None]
    shared_bytes: int
    library: Any


_START = ctypes.CFUNCTYPE(
    ctypes.c_void_p,
    *(ctypes.c_uint64, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.c_uint64, ctypes.c_uint64),
)
_ADVANCE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)
_DROP = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_lock = threading.Lock()
_libraries = 0


def _llvm() -> Any:
    try:
        import llvmlite.binding as llvm
    except ImportError as error:
        raise MissingCompiler(f"llvmlite is not installed ({error}); pip install llvmlite") from None
    return llvm


@lru_cache(maxsize=1)
def host() -> str:
    """What machine code depends on: the version of LLVM, the processor and its features."""
    llvm = _llvm()
    features = llvm.get_host_cpu_features().flatten()
    return f"llvmlite {llvm.llvm_version_info} {llvm.get_default_triple()} {llvm.get_host_cpu_name()} {features}"


@lru_cache(maxsize=1)
def _machine() -> Any:
    llvm = _llvm()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=0, reloc="pic")


@lru_cache(maxsize=1)
def _jit() -> Any:
    _machine()
    return _llvm().create_lljit_compiler()


def machine_code(text: str, coroutines: bool = False) -> bytes:
    """The object file of a module given as LLVM assembly; with `coroutines` those in it are taken apart.

    Three cheap passes and the quick code generator: 25 ms a kernel. All of -O1 takes 14 times as long and saves
    7 ms of a schedule's 100, of which most is spent outside kernels.
    """
    llvm, machine = _llvm(), _machine()
    module = llvm.parse_assembly(text)
    module.triple = llvm.get_default_triple()
    module.data_layout = str(machine.target_data)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    if coroutines:
        plain = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0))
        plain.getModulePassManager().run(module, plain)
    code: bytes = machine.emit_object(module)
    return code


def load(code: bytes) -> Run:
    """The function `run` of an object file. It stays loaded for as long as what is returned lives."""
    tracker = _linked(code, "run")
    run = _RUN(tracker["run"])
    run.library = tracker  # type: ignore[attr-defined]
    return run


def load_interleaved(code: bytes, shared_bytes: int) -> Interleaved:
    """The functions of an object file whose programs can be interleaved."""
    tracker = _linked(code, "start", "advance", "drop")
    functions = _START(tracker["start"]), _ADVANCE(tracker["advance"]), _DROP(tracker["drop"])
    return Interleaved(*functions, shared_bytes, tracker)


def _linked(code: bytes, *symbols: str) -> Any:
    global _libraries
    with _lock:
        _libraries += 1
        builder = _llvm().JITLibraryBuilder().add_object_img(code).add_current_process()
        for symbol in symbols:
            builder = builder.export_symbol(symbol)
        return builder.link(_jit(), f"kernel{_libraries}")

"""An extracted module, written into the cache and loaded from there by its path.

It must be a file: Triton compiles (or interprets) a kernel from the source that ``inspect.getsource`` finds.
Its folder is named after its content, so a changed engine file is a new module, and an unchanged one is reused; the
file has the name and the line numbers of the engine's own, which errors then point to.
"""

import importlib.util
import linecache
import sys
from pathlib import Path
from types import ModuleType

from stalerow.kernels.base.cached import cache_root, write_file

from .extract import Extract
from .source import EngineSource

_loaded: dict[Path, ModuleType] = {}


def load_module(source: EngineSource, extracted: Extract) -> ModuleType:
    """The module of `extracted`, executed once a process, after the helpers that it imports from.

    Triton must already be set to compile or to interpret (``TRITON_INTERPRET``), since decorating decides.
    """
    for helper in extracted.helpers:
        load_module(source, helper)
    path = cache_root() / "modules" / extracted.module / extracted.source.path.name
    if path in _loaded:
        return _loaded[path]
    text = f"{extracted.text}# taken from {source.kernels.path} ({source.name}), whose licence applies\n"
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_file(path, text)
        linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location(extracted.module, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # A module that imports from this one finds it by name.
    sys.modules[extracted.module] = module
    spec.loader.exec_module(module)
    _loaded[path] = module
    return module

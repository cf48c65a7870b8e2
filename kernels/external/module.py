"""An extracted module, written into the cache and loaded from there by its path.

It must be a file: Triton compiles (or interprets) a kernel from the source that ``inspect.getsource`` finds.
The file is named after its content, so a changed engine file is a new module, and an unchanged one is reused.
"""

import hashlib
import importlib.util
import linecache
from pathlib import Path
from types import ModuleType

from .cache import cache_root, write_file
from .extract import Extract
from .source import EngineSource

_loaded: dict[Path, ModuleType] = {}


def load_module(source: EngineSource, extracted: Extract) -> ModuleType:
    """The module of `extracted`, executed once a process.

    Triton must already be set to compile or to interpret (``TRITON_INTERPRET``), since decorating decides.
    """
    taken = f"taken from {source.kernels.path} ({source.name}), whose licence applies"
    text = f"{extracted.text}# {taken}\n"
    digest = hashlib.sha256(text.encode()).hexdigest()[:20]
    path = cache_root() / "modules" / f"kernels_{digest}.py"
    if path in _loaded:
        return _loaded[path]
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_file(path, text)
        linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location(f"stalerow_external_{digest}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    _loaded[path] = module
    return module

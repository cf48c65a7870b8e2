"""What `.ci/installed` asks Python: share packages with another environment, the lowest versions, the modules."""

import importlib
import pkgutil
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path


def share(folder: Path, names: list[str]) -> None:
    """Link the named distributions and all that they require into a folder, to be named in a .pth file."""
    todo, seen = list(names), set()
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue  # required on another platform
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            target = folder / top
            if not target.exists():
                target.symlink_to(Path(str(found.locate_file(top))).resolve())
        todo += [re.split(r"[^A-Za-z0-9._-]", text)[0] for text in found.requires or () if "extra ==" not in text]


def lowest(pyproject: Path) -> list[str]:
    """Constraints that pin what the project and its tests need to the lowest version allowed."""
    project = tomllib.loads(pyproject.read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    bounds = [re.match(r"([A-Za-z0-9._-]+)>=([0-9.]+)", text) for text in needed]
    return [f"{b[1]}=={b[2]}" for b in bounds if b is not None and b[1] != "torch"]


def modules() -> int:
    """Import every module of the three packages from where it is installed; how many there are."""
    count = 0
    for top in ("kernels", "scenarios", "simulator"):
        package = importlib.import_module(f"stalerow.{top}")
        names = [package.__name__, *(m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))]
        for name in names:
            try:
                importlib.import_module(name)
            except ModuleNotFoundError as error:
                # What runs inside an engine's environment needs the engine.
                if not (name.startswith("stalerow.simulator.worker.inside.") and "vllm" in str(error)):
                    raise
        count += len(names)
    assert "site-packages" in str(package.__file__), package.__file__
    return count


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "--lowest":
        print("\n".join(lowest(Path(arguments[0]))))
    elif what == "--modules":
        found = modules()
        assert found == int(arguments[0]), f"{found} modules are installed, {arguments[0]} are in the checkout"
        print(f"{found} modules")
    else:
        share(Path(what), arguments)

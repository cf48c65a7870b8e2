"""The page as a file: self-contained, safe whatever the record holds, and small."""

import base64
import hashlib
import html
import json
import re

import msgspec
import pytest

from stalerow.simulator.draw.html import page
from stalerow.simulator.draw.record import Asked

from .conftest import busy, record_of

HOSTILE = "</script><img src=x onerror=alert(1)><!--\u2028"


def between(text: str, start: str, end: str) -> str:
    return text.split(start, 1)[1].split(end, 1)[0]


def test_nothing_is_fetched(seed_bug):
    text = page([seed_bug]).decode()
    assert re.findall(r"(?:src|href|action)=[\"'](?!#|data:)", text) == []
    assert re.findall(r"https?://|@import|url\(", between(text, "<style>", "</style>")) == []
    assert "fetch(" not in text
    policy = between(text, 'Content-Security-Policy" content="', '"')
    assert policy.startswith("default-src 'none'")
    for tag, name in (("style", "style-src"), ("script", "script-src")):
        found = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[-1]
        digest = base64.b64encode(hashlib.sha256(found.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy


def test_no_content_can_end_the_script_or_become_markup(seed_bug):
    hostile = msgspec.structs.replace(
        seed_bug,
        kernels=HOSTILE,
        requests=(Asked(id=HOSTILE, prompt=1, max_tokens=1),),
        violations=(msgspec.structs.replace(seed_bug.violations[0], explanation=HOSTILE, request=HOSTILE),),
    )
    text = page([hostile]).decode()
    assert "<img" not in text
    data = json.loads(between(text, '<script type="application/json" id="data">', "</script>"))
    assert data["records"][0]["kernels"] == HOSTILE
    assert data["records"][0]["requests"][0]["id"] == HOSTILE


def test_the_first_words_name_requests_step_rank_row_and_blocks(seed_bug):
    verdict = re.sub(r"<[^>]+>", " ", between(page([seed_bug]).decode(), '<section class="verdict bad">', "</section>"))
    words = " ".join(html.unescape(verdict).split())
    assert words.startswith("cross-request copy: postprocess of step 6 during step 8 on rank 0")
    assert "working for r3 touched instead r4 step 6, run during step 8 rank 0 table row 0" in words
    assert "block written 11 block read 8 meant block 8 to block 6" in words
    assert "table row 0 was r3's in step 6; in step 7's table row 0 is r4's" in words


@pytest.mark.parametrize("pp", [2, 4])
def test_a_schedule_of_forty_steps_stays_under_500_kb(pp):
    record = record_of("reference:req-idx", busy(pp, 12, 40))
    assert record.steps == 40
    assert len(page([record])) < 500_000


def test_kinds_and_marks_are_explained_on_the_page(seed_bug):
    text = page([seed_bug]).decode()
    assert "What is: cross-request copy?" in text
    assert "vLLM #55506" in text
    for mark in seed_bug.marks:
        assert f"<summary>{mark}: " in text

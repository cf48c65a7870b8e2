"""Lines are drawn in ASCII where the locale is plain or the output has no others, and in Unicode elsewhere."""

import io
import sys

import pytest

from stalerow.simulator.draw.charset import Sheet, ascii_only


@pytest.mark.parametrize(
    ("locale", "plain"),
    [
        ({}, False),
        ({"LC_ALL": "C"}, True),
        ({"LANG": "POSIX"}, True),
        ({"LC_ALL": "C.UTF-8", "LANG": "C"}, False),
        ({"LC_ALL": "", "LC_CTYPE": "C", "LANG": "en_GB.UTF-8"}, True),
    ],
)
def test_the_first_locale_that_is_set_counts(locale, plain, monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in locale.items():
        monkeypatch.setenv(name, value)
    assert ascii_only() is plain


@pytest.mark.parametrize(
    ("encoding", "plain"), [("utf-8", False), ("utf_16", False), ("latin-1", True), ("ascii", True)]
)
def test_an_output_without_lines_gets_none(encoding, plain, monkeypatch):
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert ascii_only() is plain


def test_a_sheet_tells_rich_which_characters_there_are():
    assert (Sheet(True).encoding, Sheet(False).encoding) == ("ascii", "utf-8")

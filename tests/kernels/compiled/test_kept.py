"""Compiled kernels on disk: used again, told apart by what they depend on, and made anew when damaged."""

import logging

import pytest
import torch

from stalerow.kernels.compiled import cache, launch

pytestmark = pytest.mark.usefixtures("host")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache, and a process that has compiled nothing yet."""
    monkeypatch.setenv("STALEROW_CACHE", str(tmp_path))
    monkeypatch.setattr(launch, "_kernels", {})
    return tmp_path / "compiled"


def copied(n: int, block: int = 4) -> list[float]:
    import compiled_kernels as kernels

    launch._kernels.clear()
    src, dst = torch.arange(8.0), torch.zeros(8)
    kernels.copy_block[(2,)](src, dst, n, BLOCK=block)
    return dst.tolist()


def test_a_second_process_compiles_nothing(folder, monkeypatch):
    first = copied(5)
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr(cache, "_build", lambda *_: pytest.fail("compiled again"))
    assert copied(5) == first == [0, 1, 2, 3, 4, 0, 0, 0]


def test_other_constants_are_another_entry(folder):
    assert copied(5, 4) == copied(5, 8)
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("damage", [b"", b"x" * 100, None])
def test_a_damaged_entry_is_compiled_again(folder, damage, caplog):
    copied(5)
    (entry,) = folder.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(whole[:-9] if damage is None else damage)
    with caplog.at_level(logging.WARNING):
        assert copied(5) == [0, 1, 2, 3, 4, 0, 0, 0]
    assert "damaged" in caplog.text
    assert entry.read_bytes() == whole


def test_a_cache_that_cannot_be_written_is_said_and_does_without(folder, monkeypatch, caplog):
    folder.write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING):
        assert copied(5) == [0, 1, 2, 3, 4, 0, 0, 0]
    assert "cannot keep a compiled kernel" in caplog.text

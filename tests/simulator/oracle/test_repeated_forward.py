"""What the rank's forward has stored goes to the shadow only where the shadow's would have stored the same."""

from __future__ import annotations

import numpy as np
import pytest

from stalerow.kernels.base.fingerprint import PagesFingerprint, pages_fingerprint
from stalerow.kernels.base.layout import Layout
from stalerow.kernels.sets import kernel_set
from stalerow.simulator.oracle.shadow import Shadow
from stalerow.simulator.run.outcome import Outcome, run
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.subject.subject import Subject

SUBJECTS = (
    Subject(kernels="reference:req-idx"),
    Subject(kernels="reference:batch-row"),
    Subject(kernels="reference:req-idx", faults=("stale-accept",)),
    Subject(kernels="reference:req-idx", faults=("no-generation-check",)),
    Subject(kernels="reference:req-idx", faults=("staging-depth",)),
)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What `Shadow._same` has said."""
    said: list[bool] = []
    same = Shadow._same

    def asked(self: Shadow, *arguments: object) -> bool:
        said.append(same(self, *arguments))  # type: ignore[arg-type]
        return said[-1]

    monkeypatch.setattr(Shadow, "_same", asked)
    return said


def outcomes(subject: Subject) -> list[Outcome]:
    return [subject.run(from_seed(seed, 2, "v2")) for seed in range(4)]


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: "-".join((s.kernels, *s.faults)))
def test_a_run_is_judged_alike_where_the_shadow_computes_everything_itself(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = outcomes(subject)
    monkeypatch.setattr(Shadow, "_same", lambda *arguments: False)
    assert [(o.digest, o.violations) for o in outcomes(subject)] == [(o.digest, o.violations) for o in taken]


def test_a_healthy_run_computes_no_forward_twice(answers: list[bool]) -> None:
    assert not run(from_seed(3), kernel_set("reference:req-idx")).violations
    assert answers
    assert all(answers)


def test_other_inputs_than_were_meant_are_not_taken_over(answers: list[bool]) -> None:
    assert outcomes(Subject(kernels="reference:req-idx", faults=("staging-depth",)))
    assert True in answers
    assert False in answers


def test_a_forward_that_stores_more_than_it_was_meant_to_is_seen() -> None:
    healthy = kernel_set("reference:req-idx")

    class Stray:
        def __getattr__(self, name: str) -> object:
            return getattr(healthy.ops, name)

        def forward(self, pool, *arguments) -> None:  # type: ignore[no-untyped-def]
            healthy.ops.forward(pool, *arguments)
            pool.array[-1] ^= 1

    found = run(from_seed(3), healthy._replace(ops=Stray())).violations
    assert found
    assert found[0].launch == "forward"


def test_a_fingerprint_of_what_has_changed_is_that_of_all_pages() -> None:
    layout: Layout = from_seed(3).layout
    pages = np.random.default_rng(0).integers(0, 256, (layout.layers, layout.num_blocks, layout.page_bytes), np.uint8)
    prints = PagesFingerprint(layout)
    assert prints.of(pages, range(layout.num_blocks)) == pages_fingerprint(pages)
    for blocks in ([1], [0, 2, 3], [], [1, layout.num_blocks - 1]):
        for block in blocks:
            pages[:, block] += 7
        assert prints.of(pages, blocks) == pages_fingerprint(pages)

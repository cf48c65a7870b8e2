"""What a worker's wrong memory is called: of the parts of a page that differ, the one that tells whose state it is."""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "oracle"))
from small import CONV, LAYOUT, PREFILL, RECURRENT, TEMPORAL, admitted, planner

from stalerow.kernels.base.memory import POISON
from stalerow.kernels.base.patterns import pattern, salt, signed
from stalerow.simulator.oracle.effect import region
from stalerow.simulator.oracle.explain.decode import Decoder
from stalerow.simulator.worker.inside.explain import Explainer

PLANNER = planner()
PLANNER.plan(PREFILL)
FIRST = RECURRENT[0]


def temporal(request: str, tokens: int) -> np.ndarray:
    key = np.array(
        [signed(PLANNER.streams[request].hashes[tokens]) ^ salt(TEMPORAL.group, TEMPORAL.layer, TEMPORAL.state)]
    )
    return pattern(key, TEMPORAL.spec.row_bytes)[0]


def explained(wanted: np.ndarray, actual: np.ndarray) -> str:
    explainer = Explainer(0, LAYOUT, PLANNER, admitted(), wanted, lambda _: None)
    return explainer.wrong_memory("postprocess", 1, 3, "kernel", wanted, actual, ()).bytes_of


def pages() -> np.ndarray:
    made = np.full((LAYOUT.layers, LAYOUT.num_blocks, LAYOUT.page_bytes), POISON, np.uint8)
    made[0, FIRST][region(LAYOUT, TEMPORAL)] = temporal("r0", 3)
    made[0, FIRST][region(LAYOUT, CONV)] = 0
    return made


def test_a_state_that_arrived_says_more_than_a_window_that_nobody_wrote():
    wanted, actual = pages(), pages()
    actual[0, FIRST][region(LAYOUT, TEMPORAL)] = temporal("r1", 5)
    actual[0, FIRST][region(LAYOUT, CONV)] = POISON
    first = int(np.flatnonzero(wanted[0, FIRST] != actual[0, FIRST])[0])
    assert CONV.offset <= first < CONV.offset + CONV.data_bytes
    assert Decoder(PLANNER, LAYOUT).state(actual[0, FIRST], CONV).what == "poison"
    assert explained(wanted, actual) == "r1 after 5 tokens"


def test_without_a_state_the_first_byte_that_differs_tells():
    wanted, actual = pages(), pages()
    actual[0, FIRST][region(LAYOUT, CONV)] = POISON
    assert explained(wanted, actual).startswith("poison")

"""Whose bytes these are: every kind of content is told from every other."""

import numpy as np
import pytest
from small import ATTENTION, CONV, LAYOUT, PREFILL, TEMPORAL, VERIFY, planner

from stalerow.kernels.base.memory import NULL_POISON, POISON
from stalerow.kernels.base.patterns import pattern, salt, signed
from stalerow.simulator.oracle.effect import region, window
from stalerow.simulator.oracle.explain.decode import Decoder, Provenance

PLANNER = planner()
PLANNER.plan(PREFILL)
PLANNER.plan(VERIFY)
DECODER = Decoder(PLANNER, LAYOUT)


def written(key: int, entry=TEMPORAL, num_bytes: int | None = None) -> np.ndarray:
    tagged = np.array([signed(key) ^ salt(entry.group, entry.layer, entry.state)])
    return pattern(tagged, num_bytes or entry.spec.row_bytes)[0]


def page(**rows) -> np.ndarray:
    made = np.full(LAYOUT.page_bytes, POISON, np.uint8)
    if "temporal" in rows:
        made[region(LAYOUT, TEMPORAL)] = rows["temporal"]
    for i, row in enumerate(rows.get("conv", ())):
        window(LAYOUT, CONV, made[region(LAYOUT, CONV)])[i] = row.reshape(4, 2)
    return made


@pytest.mark.parametrize(
    ("byte", "what"), [(POISON, "poison"), (NULL_POISON, "null"), (0, "zero")], ids=["poison", "null", "zero"]
)
def test_fills_are_known_by_their_byte(byte, what):
    assert DECODER.row(np.full(32, byte, np.uint8), 0) == Provenance(what)


def test_a_state_names_its_request_and_how_many_tokens_it_has_absorbed():
    found = DECODER.state(page(temporal=written(PLANNER.streams["r1"].hashes[5])), TEMPORAL)
    assert found == Provenance("state", ("r1",), 5)
    assert str(found) == "r1 after 5 tokens"


def test_a_wrong_byte_is_a_torn_mixture_and_an_unknown_key_damage():
    data = written(PLANNER.streams["r0"].hashes[5])
    data[20] ^= 1
    assert DECODER.state(page(temporal=data), TEMPORAL).what == "torn"
    assert str(DECODER.state(page(temporal=written(12345)), TEMPORAL)) == "damaged or unknown bytes"


def test_a_rejected_drafts_state_is_its_requests_junk():
    junk = PLANNER.hashes(PLANNER.plans[2].rows["r0"])[-1]
    assert DECODER.state(page(temporal=written(junk)), TEMPORAL) == Provenance("junk", ("r0",), 9)


def rows_of(request: str, tokens) -> list[np.ndarray]:
    return [written(PLANNER.streams[request].hashes[t], CONV) for t in tokens]


def test_a_window_is_its_last_rows_if_those_before_fit_it():
    assert DECODER.state(page(conv=rows_of("r0", (4, 5, 6))), CONV) == Provenance("state", ("r0",), 6)
    assert DECODER.state(page(conv=rows_of("r0", (3, 4, 5, 6))), CONV, 1) == Provenance("state", ("r0",), 6)
    assert DECODER.state(page(conv=rows_of("r0", (4, 4, 6))), CONV).what == "torn"
    assert DECODER.state(page(conv=[*rows_of("r1", (4,)), *rows_of("r0", (5, 6))]), CONV).what == "torn"


def test_keys_and_values_are_known_by_the_first_token_in_a_page():
    data = np.full(LAYOUT.page_bytes, POISON, np.uint8)
    tagged = np.array([signed(PLANNER.streams["r1"].hashes[3]) ^ salt(1, 0, 0)])
    data[8:16] = pattern(tagged, 8)[0]
    assert str(DECODER.kv(data, 1, 0)) == "attention KV of r1 (position 2)"
    assert ATTENTION[0] not in (1, 0)

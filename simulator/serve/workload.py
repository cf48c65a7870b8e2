"""The requests of a serving run: `vllm bench serve`'s random dataset, or recorded traffic from a file.

Lengths come from our own generator, so a seed means the same requests everywhere; the vocabulary and the ranges are
those of `vllm bench serve --dataset-name random` (vLLM 0.32). `loop` sends them, `model` makes their tokens.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import log

import msgspec

from stalerow.simulator.errors import UsageError
from stalerow.simulator.files import read_bounded
from stalerow.simulator.schedule.choosers.seeded import SeededChooser

RESOLUTION = 1 << 24
STOP_TOKEN = 1
"""The token that ends an answer."""


class ServeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request. Lengths in tokens, `arrival` in microseconds after the start of the run.

    The first `prefix_len` prompt tokens come from the shared prefix `prefix_id`. A healthy model answers with
    `output_len` tokens and then stops, unless `stops` is False; `max_tokens` cuts any answer off.
    """

    id: str
    index: int
    arrival: int
    prompt_len: int
    prefix_id: int
    prefix_len: int
    output_len: int
    max_tokens: int
    stops: bool

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """What ends an answer before its cap."""
        return (STOP_TOKEN,) if self.stops else ()

    @property
    def healthy_len(self) -> int:
        """Tokens that a healthy model answers with."""
        return min(self.output_len, self.max_tokens)


class RandomDataset(msgspec.Struct, frozen=True, kw_only=True):
    """`--dataset-name random`: lengths uniform in `len * (1 - range_ratio) .. len * (1 + range_ratio)`.

    The shared prefix comes on top of the input length. `request_rate` is in requests per second (Poisson), None sends
    as fast as the concurrency allows. `max_tokens` is the cap of an answer that does not end by itself, None: its own
    length; with `ignore_eos` every answer runs to its own length.
    """

    num_prompts: int = 64
    input_len: int = 2048
    output_len: int = 1024
    range_ratio: float = 0.75
    prefix_len: int = 1024
    request_rate: float | None = None
    ignore_eos: bool = False
    max_tokens: int | None = None
    seed: int = 42

    def requests(self) -> tuple[ServeRequest, ...]:
        """The requests in the order of their arrival. Raises `UsageError`."""
        if not 0 <= self.range_ratio < 1:
            raise UsageError(f"--random-range-ratio {self.range_ratio:g}: give a share from 0 to below 1")
        if self.request_rate is not None and not self.request_rate > 0:
            raise UsageError(f"--request-rate {self.request_rate:g}: give requests per second above 0, or inf")
        draw = SeededChooser(self.seed)
        made: list[ServeRequest] = []
        arrival = 0
        for index in range(self.num_prompts):
            prompt, output = self._length(draw, self.input_len), self._length(draw, self.output_len)
            made.append(
                ServeRequest(
                    id=f"q{index}",
                    index=index,
                    arrival=arrival,
                    prompt_len=self.prefix_len + prompt,
                    prefix_id=0,
                    prefix_len=self.prefix_len,
                    output_len=output,
                    max_tokens=output if self.ignore_eos else self.max_tokens or output,
                    stops=not self.ignore_eos,
                )
            )
            if self.request_rate is not None:
                share = (1 + draw.pick(RESOLUTION)) / RESOLUTION
                arrival += round(-log(share) / self.request_rate * 1e6)
        return tuple(made)

    def _length(self, draw: SeededChooser, mean: int) -> int:
        low, high = int(mean * (1 - self.range_ratio)), -int(-mean * (1 + self.range_ratio) // 1)
        return max(low + draw.pick(high - low + 1), 1)


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    prompt_len: int
    output_len: int
    arrival: float = 0.0
    prefix_id: int | None = None
    prefix_len: int | None = None
    max_tokens: int | None = None


def read_requests(
    path: str | os.PathLike[str], prefix_len: int, ignore_eos: bool, max_tokens: int | None
) -> tuple[ServeRequest, ...]:
    """Recorded traffic: JSON lines with `prompt_len`, `output_len`, and if wanted `arrival` (seconds), `prefix_id`,
    `prefix_len` (else the argument) and `max_tokens` (else the argument, else the output length).

    `prompt_len` counts the prefix; requests with one `prefix_id` share their first `prefix_len` tokens. Raises
    `UsageError` naming the line.
    """
    try:
        lines = read_bounded(path).decode("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read ({error}): give a file of JSON lines") from None
    made: list[ServeRequest] = []
    for number, text in enumerate(lines, 1):
        if text.strip():
            made.append(_request(f"{path}, line {number}", text, len(made), prefix_len, ignore_eos, max_tokens))
    if not made:
        raise UsageError(f"{path}: holds no request: give one JSON object a line")
    made.sort(key=lambda r: (r.arrival, r.index))
    return tuple(made)


def _request(
    where: str, text: str, index: int, prefix_len: int, ignore_eos: bool, max_tokens: int | None
) -> ServeRequest:
    try:
        line = msgspec.json.decode(text, type=_Line)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise UsageError(f"{where}: {error}") from None
    if line.prompt_len < 1 or line.output_len < 1 or line.arrival < 0:
        raise UsageError(f"{where}: give prompt_len and output_len of at least 1 and an arrival of at least 0 s")
    shared = 0 if line.prefix_id is None else line.prefix_len if line.prefix_len is not None else prefix_len
    cap = line.output_len if ignore_eos else line.max_tokens or max_tokens or line.output_len
    return ServeRequest(
        id=f"q{index}",
        index=index,
        arrival=round(line.arrival * 1e6),
        prompt_len=line.prompt_len,
        prefix_id=line.prefix_id or 0,
        prefix_len=min(max(shared, 0), line.prompt_len),
        output_len=line.output_len,
        max_tokens=cap,
        stops=not ignore_eos,
    )


def longest(requests: Sequence[ServeRequest]) -> int:
    """Tokens of the longest request, prompt and capped answer."""
    return max(r.prompt_len + r.max_tokens for r in requests)

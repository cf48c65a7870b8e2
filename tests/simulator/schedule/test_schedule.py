"""A schedule file says exactly one schedule, and a wrong one is refused in one line."""

import json
from pathlib import Path

import msgspec
import pytest

from stalerow.simulator.errors import UsageError
from stalerow.simulator.files import write_beside
from stalerow.simulator.schedule.file import load, to_json
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.schedule.values import Schedule, validate


def changed(schedule: Schedule, **fields: object) -> Schedule:
    return msgspec.structs.replace(schedule, **fields)


@pytest.mark.parametrize("seed", range(40))
def test_round_trip_through_its_file(seed: int, tmp_path: Path) -> None:
    schedule = from_seed(seed)
    write_beside(tmp_path / "s.json", to_json(schedule))
    assert load(tmp_path / "s.json") == schedule
    assert to_json(load(tmp_path / "s.json")) == to_json(schedule)


def test_toml_reads_the_same(tmp_path: Path) -> None:
    schedule = changed(from_seed(3), draw=None)
    builtins = msgspec.to_builtins(schedule)
    kept = {k: v for k, v in builtins.items() if v is not None}
    kept["limits"] = {k: v for k, v in builtins["limits"].items() if v is not None}
    for request in kept["requests"]:
        if request["share"] is None:
            del request["share"]
    (tmp_path / "s.toml").write_bytes(msgspec.toml.encode(kept) if _has_toml_writer() else _toml(kept))
    assert load(tmp_path / "s.toml").requests == schedule.requests


def _has_toml_writer() -> bool:
    try:
        import tomli_w  # noqa: F401
    except ImportError:
        return False
    return True


def _toml(value: object) -> bytes:
    """Enough of a TOML writer: inline values in JSON notation, which TOML shares for these types."""

    def inline(v: object) -> str:
        if isinstance(v, dict):
            return "{" + ", ".join(f"{k} = {inline(x)}" for k, x in v.items() if x is not None) + "}"
        if isinstance(v, list | tuple):
            return "[" + ", ".join(map(inline, v)) + "]"
        return json.dumps(v)

    assert isinstance(value, dict)
    return "\n".join(f"{k} = {inline(v)}" for k, v in value.items()).encode()


def _edit(tmp_path: Path, edit) -> Path:
    data = json.loads(to_json(from_seed(3)))
    edit(data)
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize(
    ("edit", "names"),
    [
        (lambda d: d.update(format=99), ["99", "formats 1 to 2"]),
        (lambda d: d["pipeline"].update(pp=0), ["pipeline.pp", "0"]),
        (lambda d: d["pipeline"].update(profile="9.9"), ["9.9", "0.32"]),
        (
            lambda d: d["pipeline"].update(runner="v1", async_scheduling=False, profile="0.34"),
            ["pipeline.runner", "'v1'", "0.34", "'v2'"],
        ),
        (lambda d: d["pipeline"].update(color="red"), ["color"]),
        (lambda d: d["pipeline"].update(pp="two"), ["pp", "int"]),
        (lambda d: d.update(requests=[]), ["requests"]),
        (lambda d: d["requests"].append(d["requests"][0]), ["unique"]),
        (lambda d: d["requests"][0].update(max_tokens=10**6), ["max_model_len"]),
        (lambda d: d["requests"][0].update(accepted=[99]), ["99", "accepted"]),
        (lambda d: d.update(aborts=[{"request": "nobody", "step": 3}]), ["nobody"]),
        (lambda d: d["order"].update(holds=[{"at": 1, "actor": "gpu7"}]), ["gpu7", "device0"]),
        (lambda d: d["layout"].update(num_drafts=7), ["num_drafts", "7"]),
    ],
)
def test_a_wrong_file_is_refused_in_one_line_that_names_the_value(tmp_path: Path, edit, names: list[str]) -> None:
    path = _edit(tmp_path, edit)
    with pytest.raises(UsageError) as caught:
        load(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    for name in names:
        assert name in message


def test_a_file_that_is_not_there_or_not_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path / "missing.json")
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(UsageError, match="not valid JSON"):
        load(tmp_path / "x.json")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.json"
    write_beside(path, b"old")

    def refuse(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        write_beside(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_generated_schedules_are_valid() -> None:
    for seed in range(100):
        validate(from_seed(seed))


@pytest.mark.parametrize(
    ("place", "name", "words"),
    [
        ("limits", "num_prefill_tokens_per_seq", r"num_prefill_tokens_per_seq \(limits\) is not modelled"),
        ("pipeline", "skip_drafts", r"skip_drafts \(pipeline\) is not modelled: leave it out, or correct"),
        ("", "lora", r"lora \(at its top\) is not modelled"),
    ],
)
def test_what_is_not_modelled_is_refused_by_name(place: str, name: str, words: str, tmp_path: Path) -> None:
    data = json.loads(to_json(from_seed(3)))
    (data[place] if place else data)[name] = 1
    path = tmp_path / "s.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(UsageError, match=words) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))

"""A fault that tests nothing says so: unknown keys and methods, hooks that nobody calls, needs that nothing meets."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.campaign import failures
from stalerow.simulator.commands.cli import main
from stalerow.simulator.errors import UsageError
from stalerow.simulator.faults import Fault, builtin_faults, resolve
from stalerow.simulator.faults.base import Wrapped
from stalerow.simulator.faults.combine import Faults
from stalerow.simulator.faults.hooks import WRAPS, Asked, overridden
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.file import to_json
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.subject.subject import _faults

REQ_IDX = kernel_set("reference:req-idx")
README = Path(__file__).parents[3] / "scenarios" / "README.md"
HEAD = """
from stalerow.simulator.engine.policies import FreePolicy
from stalerow.simulator.faults import Fault, Wrapped
from stalerow.simulator.rank.policy import RankPolicy
"""


def fault_file(tmp_path: Path, text: str) -> str:
    """A file of its own for every text, since a process reads a fault's file once."""
    path = tmp_path / f"mine{len(list(tmp_path.glob('mine*.py')))}.py"
    path.write_text(HEAD + text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "class A(Fault):\n    name = 'a'\n    ranks = RankPolicy",
            "fault 'a': unknown key 'ranks' of A: did you mean 'rank'?",
        ),
        (
            "class A(Fault):\n    name = 'a'\n    engine = {'free': FreePolicy}",
            "fault 'a': unknown engine policy 'free': did you mean 'frees'?",
        ),
        (
            "class P(FreePolicy):\n    def setled_tokens(self, n, r): return 0\n"
            "class A(Fault):\n    name = 'a'\n    engine = {'frees': P}",
            "unknown method 'setled_tokens' of P: did you mean 'settled_tokens'?",
        ),
        (
            "class P(RankPolicy):\n    def seed_colum(self, new, size): return 0\n"
            "class A(Fault):\n    name = 'a'\n    rank = P",
            "unknown method 'seed_colum' of P: did you mean 'seed_column'?",
        ),
        (
            "class A(Fault):\n    name = 'a'\n    engine = {'frees': RankPolicy}",
            "is not a subclass of FreePolicy",
        ),
        ("class A(Fault):\n    name = 'a'", "fault 'a' changes nothing: override a method of a policy"),
        ("class A(Fault):\n    name = 'a'\n    rank = RankPolicy", "fault 'a' changes nothing"),
    ],
)
def test_what_nothing_would_call_is_refused_before_a_run(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        resolve([fault_file(tmp_path, text)])


def test_a_kernel_wrapper_with_a_mistyped_method_is_refused(tmp_path: Path) -> None:
    text = (
        "class W(Wrapped):\n    def post_process(self, *a): pass\n"
        "class A(Fault):\n    name = 'a'\n    def wrap_align(self, kernels, schedule): return W(kernels.align)"
    )
    with pytest.raises(UsageError, match="method 'post_process' of W replaces nothing of the kernels that it wraps"):
        resolve([fault_file(tmp_path, text)]).run(from_seed(1), REQ_IDX)


def test_helpers_and_the_catalogue_are_not_refused(tmp_path: Path) -> None:
    text = (
        "class P(RankPolicy):\n    def _mine(self): return -1\n"
        "    def seed_column(self, new, size): return self._mine()\n"
        "class A(Fault):\n    name = 'a'\n    rank = P"
    )
    assert resolve([fault_file(tmp_path, text)]).names == ("a",)
    for name in builtin_faults():
        assert resolve([name]).names == (name,)


class NeverAsked(RankPolicy):
    def idle_step(self, rank, step):
        raise AssertionError("no such step here")


class Sleeper(Fault):
    """Changes what happens in idle steps. Needs runner V2 and a step without rows."""

    name = "sleeper"
    rank = NeverAsked

    def needs(self, schedule):
        return schedule.pipeline.runner == "v2"


def test_calls_are_counted_and_change_no_byte() -> None:
    schedule = from_seed(1, runner="v2")
    faulty = resolve(["stale-accept"]).run(schedule, REQ_IDX)
    (use,) = faulty.faults
    assert (use.name, use.met) == ("stale-accept", True)
    assert use.calls["rank.seed_accepted"] >= len(schedule.requests)
    plain = run(schedule, REQ_IDX, rank_policy=resolve(["stale-accept"]).rank_policy)
    assert plain.digest == faulty.digest
    assert not run(schedule, REQ_IDX).faults


def test_a_hook_that_was_never_called_is_named() -> None:
    faults = Faults([Sleeper])
    outcome = faults.run(from_seed(1, runner="v1"), REQ_IDX)
    notes, nothing = faults.untested(outcome.faults)
    assert notes == [
        "fault sleeper: no schedule of 1 has what it needs: runner V2 and a step without rows",
        "fault sleeper: never called in 1 run: rank.idle_step",
    ]
    assert nothing


def test_one_run_that_tests_is_enough() -> None:
    faults = resolve(["stale-accept"])
    uses = [use for seed in (1, 2) for use in faults.run(from_seed(seed), REQ_IDX).faults]
    idle = [type(u)(u.name, False, dict.fromkeys(u.calls, 0)) for u in uses]
    assert faults.untested(idle)[1]
    assert not faults.untested([*idle, *uses])[1]
    assert faults.untested([*idle, *uses])[0] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "1", "--quiet"),
        ("fuzz", "--runs", "3", "--jobs", "1"),
        ("compare", "--seeds", "1:3", "--pp", "2", "--jobs", "1"),
    ],
)
def test_a_clean_result_that_tested_nothing_is_no_clean_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "class P(RankPolicy):\n    def excluded(self, entry, generation): return super().excluded(entry, generation)\n"
        "class A(Fault):\n    '''Needs a deferred ring.'''\n    name = 'a'\n    rank = P\n"
        "    def needs(self, schedule): return schedule.pipeline.runner == 'v2'"
    )
    path = fault_file(tmp_path, text)
    code = main([*arguments, "--kernels", "reference:req-idx", "--runner", "v1", "--fault", path])
    printed = " ".join(capsys.readouterr().out.split())
    assert code == 2
    assert "has what it needs: a deferred ring" in printed
    assert "nothing was tested" in printed
    if arguments[0] == "run":
        assert "never called in 1 run: rank.excluded" in printed


def test_a_policy_knows_its_rank_and_step() -> None:
    seen: set[tuple[int, int]] = set()

    class Watching(RankPolicy):
        def blocks_to_zero(self, step):
            seen.add((self.rank, self.step - step.number))
            return super().blocks_to_zero(step)

    for runner in ("v1", "v2"):
        run(from_seed(1, 2, runner), REQ_IDX, rank_policy=Watching)
    assert seen == {(0, 0), (1, 0)}


def test_an_engine_policy_knows_its_step() -> None:
    from stalerow.simulator.engine.policies import FreePolicy, Policies

    steps = []

    class Watching(FreePolicy):
        def settled_tokens(self, num_computed_tokens, request):
            steps.append(self.step)
            return super().settled_tokens(num_computed_tokens, request)

    outcome = run(from_seed(1), REQ_IDX, policies=Policies(frees=Watching()))
    assert steps == sorted(steps)
    assert 1 <= steps[0] < steps[-1] <= outcome.steps


def _asked(runner: str) -> set[str]:
    """Hooks of `RankPolicy` that a runner asks in 40 schedules."""
    names = sorted(n for n in vars(RankPolicy) if not n.startswith("_") and n not in ("rank", "step"))
    everything = type("Everything", (RankPolicy,), {name: vars(RankPolicy)[name] for name in names})
    assert overridden(everything, RankPolicy) == tuple(names)
    calls: Counter[str] = Counter()
    for seed in range(40):
        asked = Asked(Sleeper())
        run(from_seed(seed, runner=runner), REQ_IDX, rank_policy=asked.policy("rank", everything, RankPolicy))  # type: ignore[arg-type]
        calls.update(asked.use(True).calls)
    return {hook.removeprefix("rank.") for hook, count in calls.items() if count}


def test_the_list_of_hooks_says_which_runner_calls_them() -> None:
    rows = dict(re.findall(r"^\| (V1 and V2|V2 only) \| (.*) \|$", README.read_text(), re.MULTILINE))
    listed = {runners: {*re.findall(r"`(\w+)`", hooks)} for runners, hooks in rows.items()}
    v1, v2 = _asked("v1"), _asked("v2")
    assert listed == {"V1 and V2": v1 & v2, "V2 only": v2 - v1}
    assert not v1 - v2


def test_every_hook_of_a_rank_is_in_the_table_of_what_to_change() -> None:
    text = README.read_text()
    for name in vars(RankPolicy):
        if not name.startswith("_") and name not in ("rank", "step"):
            assert f"`{name}`" in text or f"RankPolicy.{name}`" in text, name
    assert all(hasattr(Fault, name) for name in WRAPS)
    assert Wrapped.__doc__


@pytest.mark.parametrize("command", ["fuzz", "compare"])
def test_schedules_without_what_a_fault_needs_are_skipped_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """A fault that needs runner V2, and would fail under V1 too, shows nothing there since nothing is run."""
    monkeypatch.chdir(tmp_path)
    text = (
        "class P(RankPolicy):\n    def blocks_to_zero(self, step):\n        raise ZeroDivisionError('ran')\n"
        "class A(Fault):\n    '''Needs runner V2.'''\n    name = 'a'\n    rank = P\n"
        "    def needs(self, schedule): return schedule.pipeline.runner == 'v2'"
    )
    options = ["--kernels", "reference:req-idx", "--fault", fault_file(tmp_path, text), "--jobs", "1"]
    if command == "fuzz":
        assert main(["fuzz", *options, "--runs", "12", "--runner", "v1"]) == 2
        out = capsys.readouterr().out
        assert "0 schedules in" in out
        assert "skipped: 12 schedules without what the fault needs" in out
        assert "nothing was run: no schedule has what the fault needs" in out
    else:
        assert main(["compare", *options, "--seeds", "0:12", "--pp", "2", "--runner", "v1", "--json", "t.json"]) == 2
        out = capsys.readouterr().out
        (row,) = json.loads((tmp_path / "t.json").read_text())["rows"]
        assert (row["schedules"], row["skipped"]) == (0, 12)
    assert "no schedule of 12 has what it needs: runner V2" in " ".join(out.split())


ALWAYS = """
class W(Wrapped):
    def aligned_indices(self, binding, seq_lens, num_rows_padded, block_size, out):
        out[:] = 0
class A(Fault):
    '''Needs {what}.'''
    name = 'a'
    def wrap_align(self, kernels, schedule): return W(kernels.align)
    def needs(self, schedule): return {needs}
"""
"""A fault that shows in every schedule, also where it says that it cannot."""

LACKED = "the schedule lacks what fault 'a' needs: runner V2: choose another schedule, or leave the fault out"


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "1"),
        ("run", "1", "--save", "kept.json"),
        ("replay", "1"),
        ("replay", "1", "--until", "violation"),
        ("replay", "1", "--step"),
        ("explore", "made.json"),
        ("run", "made.json"),
    ],
    ids=" ".join,
)
def test_one_schedule_without_what_a_fault_needs_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made.json").write_bytes(to_json(from_seed(1, runner="v1")))
    needs = ALWAYS.format(what="runner V2", needs="schedule.pipeline.runner == 'v2'")
    runner = () if "made.json" in arguments else ("--runner", "v1")
    options = ["--kernels", "reference:req-idx", "--fault", fault_file(tmp_path, needs), *runner]
    assert main([*arguments, *options]) == 2
    said = capsys.readouterr()
    assert said.err.strip() == f"stalerow: error: {arguments[1]}: {LACKED}"
    assert "FOUND" not in said.out
    assert not (tmp_path / "kept.json").exists()


def test_an_exploration_skips_and_counts_what_lacks_a_fault_s_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault shows in every workload; with needs that half of them have, half are searched."""
    monkeypatch.chdir(tmp_path)
    bound = ["explore", "--requests", "1", "--steps", "3", "--prompt", "2", "--output", "2", "--jobs", "1"]
    bound += ["--kernels", "reference:req-idx", "--keep-going"]

    def explored(needs: str, *options: str) -> tuple[int, str, dict]:
        path = fault_file(tmp_path, ALWAYS.format(what="what there is", needs=needs))
        code = main([*bound, "--fault", path, "--json", "a.json", *options])
        return code, capsys.readouterr().out, json.loads((tmp_path / "a.json").read_text())

    code, out, every = explored("True", "--workloads")
    assert (code, every["skipped"], every["failed"]) == (1, 0, every["schedules"])
    code, out, half = explored("schedule.requests[0].prompt_len == 2", "--workloads")
    assert code == 1
    assert 0 < half["skipped"] < every["schedules"]
    assert half["skipped"] + half["schedules"] == every["schedules"]
    assert half["failed"] == half["schedules"]
    assert f"skipped: {half['skipped']} schedules without what the fault needs" in out
    for options in ([], ["--workloads"]):
        code, out, none = explored("False", *options)
        assert code == 2
        assert (none["schedules"], none["clean"], none["failures"]) == (0, None, [])
        assert none["skipped"] == (every["schedules"] if options else none["skipped"]) > 0
        assert "nothing was run: no schedule has what the fault needs" in out
        assert f"note: fault a: no schedule of {none['skipped']} has what it needs: what there is" in out
        assert "clean" not in out


def test_an_exploration_whose_fault_was_never_asked_is_not_clean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "class P(RankPolicy):\n    def excluded(self, entry, generation): return super().excluded(entry, generation)\n"
        "class A(Fault):\n    name = 'a'\n    rank = P"
    )
    path = fault_file(tmp_path, text)
    bound = ["--requests", "1", "--pp", "1", "--steps", "3", "--prompt", "2", "--output", "2", "--jobs", "1"]
    assert main(["explore", *bound, "--kernels", "reference:req-idx", "--fault", path]) == 2
    out = capsys.readouterr().out
    assert re.search(r"note: fault a: never called in \d+ runs?: rank.excluded", out)
    assert "nothing was tested" in out


def test_what_is_shrunk_keeps_what_its_fault_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = ALWAYS.format(what="two requests", needs="len(schedule.requests) >= 2")
    path = fault_file(tmp_path, text)
    assert main(["fuzz", "--runs", "1", "--jobs", "1", "--kernels", "reference:req-idx", "--fault", path]) == 1
    (saved,) = failures.saved()
    assert len(failures.load(saved).failure.schedule.requests) == 2


def test_a_folder_s_failures_without_what_their_faults_need_are_not_run_and_not_pruned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault's needs changed after the failures were saved."""
    monkeypatch.chdir(tmp_path)
    path = fault_file(tmp_path, ALWAYS.format(what="a prompt", needs="True"))
    common = ["--jobs", "1", "--kernels", "reference:req-idx", "--runs", "1", "--fault", path]
    assert main(["fuzz", *common]) == 1
    (saved,) = failures.saved()
    Path(path).write_text(HEAD + ALWAYS.format(what="a prompt", needs="False"))
    _faults.cache_clear()
    capsys.readouterr()
    assert main(["replay", ".stalerow/failures", "--trust"]) == 2
    said = capsys.readouterr()
    assert f"NOT RUN  {saved}" in said.out
    assert "no schedule in it has what its faults need: nothing was run" in said.err
    assert main(["failures", "prune", "--fixed", "--jobs", "1", "--trust"]) == 0
    assert saved.exists()
    assert main(["replay", str(saved), "--trust"]) == 2
    assert "the schedule lacks what fault 'a' needs: a prompt" in capsys.readouterr().err
    assert main(["scenarios", "add", str(saved), "--trust", "--folder", str(tmp_path)]) == 2
    assert "lacks what fault 'a' needs" in capsys.readouterr().err

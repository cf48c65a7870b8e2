"""A fault that tests nothing says so: unknown keys and methods, hooks that nobody calls, needs that nothing meets."""

import re
from collections import Counter
from pathlib import Path

import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.commands.cli import main
from stalerow.simulator.errors import UsageError
from stalerow.simulator.faults import Fault, builtin_faults, resolve
from stalerow.simulator.faults.base import Wrapped
from stalerow.simulator.faults.combine import Faults
from stalerow.simulator.faults.hooks import WRAPS, Asked, overridden
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.generate import from_seed

REQ_IDX = kernel_set("reference:req-idx")
README = Path(__file__).parents[3] / "scenarios" / "README.md"
HEAD = """
from stalerow.simulator.engine.policies import FreePolicy
from stalerow.simulator.faults import Fault, Wrapped
from stalerow.simulator.rank.policy import RankPolicy
"""


def fault_file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.py"
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


def test_a_clean_run_whose_hooks_were_never_called_is_no_clean_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "class P(RankPolicy):\n    def excluded(self, entry, generation): return super().excluded(entry, generation)\n"
        "class A(Fault):\n    name = 'a'\n    rank = P"
    )
    arguments = ["--kernels", "reference:req-idx", "--runner", "v1", "--fault", fault_file(tmp_path, text)]
    assert main(["run", "1", "--quiet", *arguments]) == 2
    printed = " ".join(capsys.readouterr().out.split())
    assert "note: fault a: never called in 1 run: rank.excluded" in printed
    assert "nothing was tested" in printed


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "class P(RankPolicy):\n    def blocks_to_zero(self, step): return [1 / 0]\n"
            "class A(Fault):\n    name = 'a'\n    rank = P",
            "fault 'a' raised ZeroDivisionError at mine.py:6: division by zero: correct it",
        ),
        (
            "class P(RankPolicy):\n    def blocks_to_zero(self, step): assert not step\n"
            "class A(Fault):\n    name = 'a'\n    rank = P",
            "fault 'a' raised AssertionError at mine.py:6: correct it",
        ),
        (
            "class P(FreePolicy):\n    def settled_tokens(self, n, request): return request.settled\n"
            "class A(Fault):\n    name = 'a'\n    engine = {'frees': P}",
            "fault 'a' raised AttributeError at mine.py:6: 'Request' object has no attribute 'settled': correct it",
        ),
        (
            "class P(RankPolicy):\n    def blocks_to_zero(self, step): return []\n"
            "class A(Fault):\n    name = 'a'\n    rank = P\n    def needs(self, schedule): return schedule.ranks > 1",
            "fault 'a' raised AttributeError at mine.py:10: 'Schedule' object has no attribute 'ranks': correct it",
        ),
    ],
    ids=["rank", "assertion", "engine", "needs"],
)
@pytest.mark.parametrize("command", [("run", "3"), ("fuzz", "--runs", "1", "--jobs", "1")], ids=["run", "fuzz"])
def test_a_fault_that_raises_is_a_mistake_in_its_file_and_not_the_tool_s(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...], text: str, said: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    arguments = ["--kernels", "reference:req-idx", "--fault", fault_file(tmp_path, text)]
    assert main([*command, *arguments]) == 2
    assert f"stalerow: error: {said}" in capsys.readouterr().err.splitlines()


def test_an_assertion_of_the_engine_that_a_fault_makes_fail_is_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "class P(FreePolicy):\n    def settled_tokens(self, n, request):\n"
        "        assert n < 9\n        return super().settled_tokens(n, request)\n"
        "class A(Fault):\n    name = 'a'\n    engine = {'frees': P}"
    )
    arguments = ["--kernels", "reference:req-idx", "--quiet", "--fault", fault_file(tmp_path, text)]
    assert main(["run", "3", *arguments]) == 1
    assert "broken rule" in capsys.readouterr().out

"""The repository keeps the rules of its own house, and every rule is seen to fail on a repository that breaks it."""

from __future__ import annotations

from collections.abc import Callable

import definitions  # noqa: F401
import known
import pytest
import twice  # noqa: F401
import wording  # noqa: F401
from repository import Repository
from rules import RULES

Changes = dict[str, str | None]


@pytest.fixture(scope="module")
def repository() -> Repository:
    return Repository.read()


@pytest.mark.parametrize("name", RULES)
def test_the_repository_keeps(name: str, repository: Repository) -> None:
    broken = list(RULES[name](repository))
    assert broken == [], f"{RULES[name].__doc__}\n" + "\n".join(broken)


def added(path: str, text: str) -> Callable[[Repository], Changes]:
    """A file more."""
    return lambda repository: {path: text}


def edited(path: str, old: str, new: str) -> Callable[[Repository], Changes]:
    """Other text in a file; `old` must be there."""

    def change(repository: Repository) -> Changes:
        assert old in repository.files[path], f"{path} no longer has {old!r}: break it in another way"
        return {path: repository.files[path].replace(old, new, 1)}

    return change


def first_line_of(path: str, line: str) -> Callable[[Repository], Changes]:
    """An import more at the end of a file, whatever is in it."""
    return lambda repository: {path: f"{repository.files[path]}\n{line}\n"}


def copied(path: str, first: str, last: str, renamed: dict[str, str] | None = None) -> Callable[[Repository], Changes]:
    """A file more, with the lines of another from one text to the next, and other names in them."""

    def change(repository: Repository) -> Changes:
        text = repository.files[path]
        lines = text[text.index(first) : text.index(last)]
        for old, new in (renamed or {}).items():
            lines = lines.replace(old, new)
        return {"simulator/rank/again.py": f'"""Again."""\n\n\n{lines}'}

    return change


def longer(path: str, lines: int) -> Callable[[Repository], Changes]:
    return lambda repository: {path: repository.files[path] + "\n" * lines}


RANK, POOL = "simulator/rank/batch.py", "simulator/engine/block_pool.py"
BROKEN = [
    ("arrows_go_one_way", first_line_of("kernels/sets.py", "import stalerow.simulator.errors"), "kernels.sets imports"),
    (
        "arrows_go_one_way",
        first_line_of("simulator/files.py", "def late():\n    from stalerow.scenarios.loader import catalogue"),
        "simulator.files imports stalerow.scenarios.loader",
    ),
    ("arrows_go_one_way", first_line_of("simulator/files.py", "WHERE = 'stalerow.scenarios.loader'"), "names stalerow"),
    ("lower_rooms_know_nothing_above", first_line_of(RANK, "import stalerow.simulator.oracle.judge"), "oracle.judge"),
    ("kernels_know_no_requests", first_line_of("kernels/sets.py", "def of(schedule): return schedule"), "schedule"),
    ("no_circles", first_line_of(POOL, "import stalerow.simulator.engine.core"), "when loaded"),
    (
        "no_circles",
        first_line_of("simulator/errors.py", "def late():\n    import stalerow.simulator.files"),
        "import each other: stalerow.simulator.errors, stalerow.simulator.files",
    ),
    (
        "no_circles",
        first_line_of("kernels/base/device.py", "LATER = 'stalerow.kernels.compiled.launch'"),
        "stalerow.kernels.base.device, ",
    ),
    (
        "folders_import_one_way",
        first_line_of(RANK, "import stalerow.simulator.run.simulation"),
        "simulator/oracle, simulator/rank",
    ),
    (
        "folders_import_one_way",
        first_line_of("kernels/align/indices.py", "import stalerow.kernels.own.update"),
        "kernels/align, ",
    ),
    (
        "packages_are_the_folders",
        added("simulator/new/__init__.py", '"""New."""\n'),
        "does not list stalerow.simulator.new",
    ),
    ("packages_are_the_folders", edited("pyproject.toml", '    "stalerow.kernels.own",\n', ""), "stalerow.kernels.own"),
    ("packages_are_the_folders", added("simulator/draw/page/new/icon.svg", ""), "icon.svg is not in package-data"),
    ("packages_are_the_folders", added("simulator/engine/rules.json", ""), "rules.json is not in package-data"),
    ("packages_are_the_folders", edited("pyproject.toml", '"page/*"', '"page/*", "none/*"'), "none/* matches nothing"),
    ("packages_are_the_folders", lambda _: {"kernels/py.typed": None}, "kernels/py.typed is missing"),
    ("packages_are_the_folders", lambda _: {"simulator/rank/__init__.py": None}, "has no __init__.py"),
    ("no_dead_definitions", first_line_of(RANK, "def nobody_" + "calls(): pass"), "calls is used nowhere"),
    ("no_dead_definitions", first_line_of(RANK, "NOBODY_" + "READS = 1"), "READS is used nowhere"),
    (
        "no_dead_definitions",
        first_line_of(RANK, "class A:\n    def nor_" + "this(self): pass\nA"),
        "this is used nowhere",
    ),
    ("nothing_is_for_tests_alone", first_line_of(RANK, "def only_tests(): pass"), "only_tests is used by tests alone"),
    (
        "nothing_is_for_tests_alone",
        lambda _: {"simulator/engine/block_pool.py": None},
        "block_pool.py:ref_count, which is not",
    ),
    (
        "every_operation_is_judged",
        edited("simulator/oracle/watch.py", "                | Dummy()\n", ""),
        "not judge Dummy",
    ),
    ("every_operation_is_judged", edited("simulator/oracle/watch.py", "case Zero():", "case Zeros():"), "judge Zero"),
    (
        "every_operation_is_judged",
        first_line_of("simulator/rank/operations.py", 'class Undo(_Operation):\n    """Undo."""\n\n    kind = "undo"'),
        "Undo is no member of Operation",
    ),
    (
        "every_file_says_its_idea",
        added("kernels/base/new.py", "X = 1\n"),
        "kernels/base/new.py has no module docstring",
    ),
    ("files_are_short", longer("kernels/sets.py", 300), "kernels/sets.py has 3"),
    ("simulator_has_a_face", added("simulator/loose.py", '"""Loose."""\n'), "simulator/loose.py is loose"),
    ("references_lead_somewhere", added("simulator/docs/new.md", "See `simulator/oracle/gone.py`."), "oracle/gone.py"),
    ("references_lead_somewhere", lambda _: {"simulator/rank/operations.py": None}, "simulator/README.md names"),
    (
        "references_lead_somewhere",
        lambda _: {f"simulator/truth/{n}.py": None for n in ("__init__", "model", "plan", "streams")},
        "simulator/truth",
    ),
    ("references_lead_somewhere", first_line_of(RANK, "# as in stalerow.simulator.rank.gone"), "simulator.rank.gone"),
    ("references_lead_somewhere", first_line_of(RANK, "# as `judge_it.py` does"), "judge_it.py"),
    ("examples_are_still_named", lambda r: dict.fromkeys(p for p in r.files if p.endswith((".md", ".py"))), "mine.py"),
    ("tests_mirror_the_code", lambda _: {"tests/simulator/rank/test_ring.py": None}, "rank/ring.py has no tests/"),
    ("tests_mirror_the_code", added("simulator/oracle/explain/new.py", '"""New."""\n'), "explain/test_new.py"),
    ("nothing_is_written_twice", copied("kernels/own/update.py", "def post_update(", "def advance_"), "post_update"),
    (
        "nothing_is_written_twice",
        copied("kernels/own/update.py", "def post_update(", "def advance_", {"slot": "place", "row": "line"}),
        "kernels/own/update.py:post_update",
    ),
    (
        "nothing_is_written_twice",
        lambda r: {"kernels/own/operators_triton.py": '"""Empty."""\n'},
        "TritonOperators, which share no 10 lines",
    ),
    ("words_are_our_own", added("simulator/docs/new.md", "It lies in " + "/ho" + "me/me/x."), "a path of one machine"),
    (
        "words_are_our_own",
        added("simulator/docs/new.md", "index-url = https://py" + "pi.org/simple"),
        "registry's host",
    ),
    ("words_are_our_own", added("simulator/docs/new.md", "Part of iss" + "ue 14."), "an issue by its number alone"),
    ("words_are_our_own", first_line_of(RANK, "# TO" + "DO: more"), "a note to come back"),
    ("words_are_our_own", added("simulator/docs/new.md", "Done in this ses" + "sion."), "who wrote it, or when"),
]


@pytest.mark.parametrize(("name", "change", "says"), BROKEN, ids=[f"{b[0]}-{i}" for i, b in enumerate(BROKEN)])
def test_a_broken_rule_is_seen(
    name: str, change: Callable[[Repository], Changes], says: str, repository: Repository
) -> None:
    broken = list(RULES[name](repository.changed(change(repository))))
    assert any(says in line for line in broken), broken


def test_a_module_may_be_let_off_its_tests_only_while_it_has_none(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(tests: str | None) -> list[str]:
        changed = repository.changed({"tests/simulator/rank/test_ring.py": tests})
        return list(RULES["tests_mirror_the_code"](changed))

    monkeypatch.setattr(known, "WITHOUT_OWN_TESTS", {"simulator/rank/ring.py": "a reason"})
    assert broken(None) == []
    assert ["lists simulator/rank/ring.py" in line for line in broken('"""It has."""\n')] == [True]
    monkeypatch.setattr(known, "WITHOUT_OWN_TESTS", {"simulator/rank/gone.py": "a reason"})
    assert broken('"""It has."""\n') == ["known.WITHOUT_OWN_TESTS lists simulator/rank/gone.py, which is not there"]


def test_every_rule_is_broken_somewhere() -> None:
    assert {name for name, _, _ in BROKEN} == set(RULES)


def test_what_is_let_pass_has_a_reason() -> None:
    lists = (
        known.WRITTEN_TWICE,
        known.FOR_TESTS,
        known.OVERRIDES,
        known.CALLED_FROM_OUTSIDE,
        known.DISCOVERED,
        known.NOT_OURS,
        known.WITHOUT_OWN_TESTS,
    )
    assert all(len(reason.split()) >= 1 for listed in lists for reason in listed.values())

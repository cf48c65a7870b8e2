"""Workloads are numbered without gaps or repeats, and acceptances asked as they come up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalerow.simulator.errors import UsageError
from stalerow.simulator.explore.bounds import Acceptances, Bounds, complete, count, number_of, shapes, total, workload

SMALL = Bounds(requests=3, prompt=2, output=1, gap=1, steps=2)


def test_every_workload_has_one_number():
    made = [workload(SMALL, i) for i in range(total(SMALL))]
    assert len(set(made)) == len(made) == 2 + 2 * 4 + 2 * 4 * 4
    assert [len(w) for w in made] == sorted(len(w) for w in made)
    assert all(w[0].gap == 0 for w in made)
    assert [number_of(SMALL, w) for w in made] == list(range(len(made)))


def test_aborts_are_part_of_a_workload_if_asked_for():
    aborting = Bounds(requests=1, prompt=1, output=1, gap=0, steps=3, aborts=True)
    assert [shape.abort for shape in shapes(aborting)] == [0, 1, 2, 3]
    assert total(aborting) == 4


def test_the_bound_that_holds_is_whole_numbers_of_requests():
    assert complete(SMALL, count(SMALL, 1) - 1) is None
    assert complete(SMALL, count(SMALL, 1)).requests == 1
    assert complete(SMALL, total(SMALL) - 1).requests == 2
    assert complete(SMALL, total(SMALL)) == SMALL


@pytest.mark.parametrize(("name", "value"), [("requests", 0), ("steps", 0), ("block_size", 1), ("prompt", -1)])
def test_a_bound_that_holds_nothing_is_refused(name, value):
    with pytest.raises(UsageError, match=f"--{name.replace('_', '-')} {value}|--{name} is {value}"):
        Bounds(**{name: value}).check()


@given(st.data())
def test_acceptances_try_every_combination_of_what_is_asked_once(data):
    # What is asked next depends on the answers so far: a tree, drawn as it is walked.
    tree = {}

    def asked(answers):
        questions, path = [], ()
        for position in range(3):
            question = tree.setdefault(path, data.draw(st.tuples(st.integers(0, 2), st.integers(0, 2))))
            if question[0] == 2:
                break
            questions.append(question)
            given_answer = answers[position][1] if position < len(answers) else 0
            path += (given_answer,)
        return questions, path

    acceptances, seen = Acceptances(), []
    while True:
        questions, path = asked(acceptances.answers)
        seen.append(path)
        if not acceptances.next(questions):
            break
    assert len(seen) == len(set(seen))
    leaves, open_paths = 0, [()]
    while open_paths:
        path = open_paths.pop()
        request, drafts = tree.get(path, (2, 0)) if len(path) < 3 else (2, 0)
        if request == 2:
            leaves += 1
        else:
            open_paths += [(*path, answer) for answer in range(drafts + 1)]
    assert len(seen) == leaves


def test_answers_go_to_the_request_that_was_asked():
    acceptances = Acceptances()
    asked = [(0, 1), (1, 1), (0, 1)]
    assert acceptances.next(asked)
    assert (acceptances.of(0), acceptances.of(1)) == ([0, 1], [0])
    with pytest.raises(ValueError, match="came first before"):
        acceptances.next([(1, 1)])

"""A swarm leaves whole features out, others for another number, and says so in the command."""

from stalerow.simulator.campaign.candidates import signature
from stalerow.simulator.campaign.shrink import shrink
from stalerow.simulator.schedule.choosers.swarm import FEATURES, SwarmChooser, left_out
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw, genuine
from stalerow.simulator.schedule.order import Order
from stalerow.simulator.subject.subject import Subject

SEEDS = range(60)


class Asked:
    def __init__(self):
        self.labels = set()

    def pick(self, n, label):
        self.labels.add(label)
        return n - 1


def test_every_feature_is_left_out_by_some_swarms_and_kept_by_others():
    sets = [set(left_out(number)) for number in range(40)]
    for name in FEATURES:
        assert 5 < sum(name in out for out in sets) < 35
    assert len({frozenset(out) for out in sets}) > 35


def test_what_a_swarm_leaves_out_no_seed_has():
    number = next(n for n in range(200) if {"aborts", "order of events", "graphs"} <= set(left_out(n)))
    schedules = [from_draw(Draw(seed, swarm=number)) for seed in SEEDS]
    assert not any(s.aborts or s.limits.graph_sizes or s.order != Order() for s in schedules)
    plain = [from_draw(Draw(seed)) for seed in SEEDS]
    for some in (lambda s: s.aborts, lambda s: s.limits.graph_sizes, lambda s: s.order != Order()):
        assert any(map(some, plain))


def test_every_label_of_a_feature_is_one_of_the_generators(monkeypatch):
    from stalerow.simulator.schedule.generate import generate

    asked = Asked()
    generate(asked)
    simple = SwarmChooser(asked, 0)
    generate(simple)
    for labels in FEATURES.values():
        for label in labels:
            if label != "holds":  # asked for planned orders only
                assert any(known.endswith(label) for known in asked.labels), label


def test_a_swarm_is_part_of_the_command_and_of_shrinking():
    subject = Subject(kernels="reference:batch-row")
    draws = (Draw(seed, swarm=3) for seed in range(40))
    draw = next(d for d in draws if subject.run(from_draw(d)).violations)
    assert draw.command(subject).endswith(" --swarm 3")
    assert draw.name.endswith("-swarm3")
    schedule = from_draw(draw)
    assert genuine(schedule)
    wanted = signature(subject.run(schedule).violations[0])
    small = shrink(subject, schedule, wanted, budget=40).schedule
    assert signature(subject.run(small).violations[0]) == wanted

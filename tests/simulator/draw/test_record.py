"""A record is a plain value: it travels as JSON, short where it says nothing, and comes back equal."""

import json

import msgspec
import pytest

from stalerow.simulator.draw.record import Event, Executed, Owner, OwnerChange, Prepared, Record, Waited, Write


def event(what, number: int = 1) -> Event:
    return Event(number=number, actor="main", start=3, end=5, what=what)


def record(*events: Event) -> Record:
    return Record(
        kernels="mine", pp=1, drafts=0, runner="v2", num_blocks=4, lookup="slot", groups=(), requests=(), events=events
    )


def test_a_record_survives_json(seed_bug):
    assert msgspec.json.decode(msgspec.json.encode(seed_bug), type=Record) == seed_bug


def test_what_says_nothing_is_left_out():
    made = json.loads(msgspec.json.encode(record()))
    assert made.keys() == {"kernels", "pp", "drafts", "runner", "num_blocks", "lookup", "groups", "requests", "events"}


@pytest.mark.parametrize(
    "what", [Waited(), Prepared(step=2, launches=("gather",)), Executed(launch="gather", step=2, of=1)]
)
def test_kinds_of_event_are_told_by_their_tag(what):
    text = msgspec.json.encode(record(event(what)))
    assert msgspec.json.decode(text, type=Record).events[0].what == what
    assert json.loads(text)["events"][0][-1]["type"] == type(what).__name__.lower()


def test_events_and_writes_are_arrays_of_their_fields_in_order():
    write = Write(block=3, how="stray", holds="zeros", asked=False)
    changed = OwnerChange(block=3, owners=(Owner(request="r0", group=0, column=1),))
    what = Executed(launch="gather", step=2, of=2, writes=(write,), owners=(changed,))
    made = json.loads(msgspec.json.encode(record(event(what))))["events"][0]
    assert made[:5] == [1, "main", -1, 3, 5]
    assert made[-1]["writes"] == [[3, "stray", "zeros", -1, -1, 1, False]]
    assert Event.__struct_fields__[-1] == "what"


@pytest.mark.parametrize("field", ["lookup", "events"])
def test_what_is_no_record_is_refused(field):
    made = json.loads(msgspec.json.encode(record()))
    made[field] = "neither"
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.json.decode(json.dumps(made), type=Record)


def test_a_record_does_not_change():
    with pytest.raises(AttributeError):
        record().steps = 1  # type: ignore[misc]

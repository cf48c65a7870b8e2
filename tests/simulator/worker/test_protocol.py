"""Messages between the parent and the engine's process."""

import io

import msgspec

from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.worker import protocol


def test_a_schedule_arrives_as_it_was_sent():
    stream = io.BytesIO()
    question = protocol.Run(schedule=from_draw(Draw(seed=5)), record=True)
    protocol.write(stream, question)
    stream.seek(0)
    frame = protocol.read_frame(stream)
    assert frame is not None
    assert msgspec.msgpack.decode(frame, type=protocol.Run) == question


def test_answers_are_told_apart():
    decoder = msgspec.msgpack.Decoder(protocol.Answer)
    for answer in (protocol.Hello("0.32.0", "2.13.0", 1.5), protocol.Lost("killed by SIGSEGV"), protocol.Refused("no")):
        assert decoder.decode(msgspec.msgpack.encode(answer)) == answer


def test_a_stream_that_ends_within_a_message_has_none():
    stream = io.BytesIO()
    protocol.write(stream, protocol.Lost("x"))
    assert protocol.read_frame(io.BytesIO(stream.getvalue()[:-1])) is None
    assert protocol.read_frame(io.BytesIO()) is None

"""A serving run in closed loop: what a user of the engine would have seen.

A workload (`workload`) is sent to the engine by a client that keeps so many requests open; the engine, the ranks and
the kernel set are those of every other run (`loop`, `rank`); what the last rank samples depends on the state that the
forwards read (`model`, with `acceptance`); time comes from `costs`; `report` sums a run up and `job` is one to run.
"""

"""From a difference to a named violation with one sentence: wrong copies, wrong reads, wrong numbers."""

"""Exhaustive search: every order of events of a schedule, and every workload up to a bound."""

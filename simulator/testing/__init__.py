"""The public face for tests: the isolation property, Hypothesis profiles and the pytest plugin."""

"""The oracle: judges a run from requests, tokens and block ownership alone; it knows no rows, slots or tables."""

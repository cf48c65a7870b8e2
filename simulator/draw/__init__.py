"""Drawings of what happened: a failing schedule on one screen, tables of results."""

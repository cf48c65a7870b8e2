"""Drawings of what happened: a failing schedule on one screen, its page, its trace."""

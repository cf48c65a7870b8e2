"""Say what a kind of violation or a mark means, what usually causes it, and what to look at next."""

from __future__ import annotations

import argparse

from stalerow.simulator.commands.options import add_json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", metavar="KIND", nargs="*", help="a kind of violation or a mark; none: list them all")
    add_json(parser, "explain", instead=True)


def execute(args: argparse.Namespace) -> int:
    from stalerow.simulator.commands.screen.results import console
    from stalerow.simulator.draw import words

    if args.json:
        from stalerow.simulator.commands import answers

        pages = {name: words.markdown(name) for name in [" ".join(args.kind)] if name}
        answers.write(args, answers.ExplainAnswer(names=dict(words.lists()), pages=pages))
        if args.json == answers.STDOUT:
            return 0
    out = console()
    if not args.kind:
        for title, names in words.lists():
            out.print(f"{title}: {', '.join(names)}", markup=False)
        return 0
    words.print_page(" ".join(args.kind), out)
    return 0

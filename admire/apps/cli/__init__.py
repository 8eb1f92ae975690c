"""The command line's entrance, which listens for Ctrl-C before anything slow is imported."""

from __future__ import annotations

from collections.abc import Sequence

from admire.apps.cli.stop import stoppable


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    A user's error ends with one message and exit code 2, Ctrl-C with one and exit code 130. Where
    the reader of stdout has closed it, the exit code is 141, without a message.
    """
    with stoppable():
        from admire.apps.cli.app import run

        run(arguments)

"""The one error that a user can cause."""


class UserError(Exception):
    """Something that the user can put right: bad input, a missing model, a refused key.

    The message says what was wrong, where (file, row, column) and what to do. The command line
    prints it without a traceback and ends with exit code 2.
    """

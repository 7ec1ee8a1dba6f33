"""The error a user can meet: one sentence that says what was wrong, where, and what to do."""

from textsvm.printable import one_line


class InputError(ValueError):
    """Something the user gave (a path, a corpus, a parameter, a model file) cannot be used.

    Its message is one printable line of at most 300 symbols, whatever names of files, columns or labels it
    repeats.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(one_line(str(message)))

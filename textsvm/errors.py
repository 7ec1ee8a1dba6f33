"""Errors and warnings for users: one sentence that says what is wrong, where, and what to do."""

from textsvm.runtime.printable import one_line


class InputError(ValueError):
    """Something the user gave (a path, a corpus, a parameter, a model file) cannot be used.

    Its message is one printable line of at most 300 symbols, whatever names of files, columns or labels it
    repeats.

    Examples
    --------
    >>> from textsvm import InputError, Spectrum
    >>> try:
    ...     Spectrum(0)(["banana"])
    ... except InputError as error:
    ...     print(error)
    p=0 is no length of a substring: give a whole number from 1 or a range (p1, p2)
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(one_line(str(message)))


class RareClassWarning(UserWarning):
    """Some classes have fewer documents than there are folds."""

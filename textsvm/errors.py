"""The error a user can meet: one sentence that says what was wrong, where, and what to do."""


class InputError(ValueError):
    """Something the user gave (a path, a corpus, a parameter, a model file) cannot be used.

    Examples
    --------
    >>> from textsvm import InputError, Spectrum
    >>> try:
    ...     Spectrum(0)(["banana"])
    ... except InputError as error:
    ...     print(error)
    p=0 is no length of a substring: give a whole number from 1 or a range (p1, p2)
    """

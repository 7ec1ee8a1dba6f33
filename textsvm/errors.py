"""The error a user can meet: one sentence that says what was wrong, where, and what to do."""


class InputError(ValueError):
    """Something the user gave (a path, a corpus, a parameter, a model file) cannot be used."""

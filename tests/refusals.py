"""The refusal of an input, which is one sentence, and functions that fail."""

import pytest

from textsvm.errors import InputError


def raising(error):
    """A function that raises an error, whatever its arguments."""

    def call(*_, **__):
        raise error

    return call


def refuses(says, call, *arguments, **options):
    """Call, and expect an `InputError` of a single line in which the pattern `says` is found."""
    with pytest.raises(InputError, match=says) as refusal:
        call(*arguments, **options)
    sentence = str(refusal.value)
    del refusal  # its frames keep files open
    assert "\n" not in sentence

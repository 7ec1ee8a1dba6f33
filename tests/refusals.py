"""The refusal of an input, which is one sentence."""

import pytest

from textsvm.errors import InputError


def refuses(says, call, *arguments, **options):
    """Call, and expect an `InputError` of a single line in which the pattern `says` is found."""
    with pytest.raises(InputError, match=says) as refusal:
        call(*arguments, **options)
    sentence = str(refusal.value)
    del refusal  # its frames keep files open
    assert "\n" not in sentence

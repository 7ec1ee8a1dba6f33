"""The refusal of an input."""

import pytest

from textsvm.errors import InputError


def refuses(says, call, *arguments, **options):
    """Call, and expect an `InputError` in whose sentence the pattern `says` is found."""
    with pytest.raises(InputError, match=says):
        call(*arguments, **options)

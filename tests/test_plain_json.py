"""Results as JSON values."""

import datetime
import json
import math

import numpy as np
import pytest

from textsvm import GapWeighted, Spectrum
from textsvm.runtime.plain_json import to_json


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (np.bool_(False), False),
        (np.int64(2**62), 2**62),
        (np.float32(0.5), 0.5),
        (np.float64("nan"), None),
        (math.inf, None),
        (np.str_("a"), "a"),
        ("\ud800", "\ud800"),
        (np.array([[1.5, np.nan], [-np.inf, 2]]), [[1.5, None], [None, 2.0]]),
        (np.array(3), 3),
        (np.array([("a", 1), None], object), [["a", 1], None]),
        ((1, (2, [3])), [1, [2, [3]]]),
        (b"caf\xc3\xa9 \xff", "café \\xff"),
        (np.array([b"a"]), ["a"]),
        (datetime.date(2024, 2, 29), "2024-02-29"),
        (datetime.datetime(2024, 2, 29, 1, 2), "2024-02-29T01:02:00"),
        (np.datetime64("2024-02-29", "ns"), "2024-02-29T00:00:00.000000000"),
        (np.array(["2024-02-29"], "M8[D]"), ["2024-02-29"]),
        ({np.int64(1): np.float32(2), "a": (3,), b"b": {}}, {"1": 2.0, "a": [3], "b": {}}),
        (1j, "1j"),
    ],
    ids=repr,
)
def test_values(value, expected):
    found = to_json(value)
    assert found == expected
    assert type(found) in (type(expected), np.str_)
    assert json.loads(json.dumps(found, allow_nan=False)) == expected


def test_a_kernel_is_its_name_and_its_parameters():
    found = to_json({"kernel": Spectrum((1, 3)), "others": [GapWeighted(p=np.int64(4))]})
    assert found["kernel"] == {"name": "spectrum", **Spectrum((1, 3)).get_params(), "p": [1, 3]}
    assert found["others"][0]["p"] == 4
    json.dumps(found, allow_nan=False)


def test_what_json_has_not_is_shown():
    assert to_json([len, {1}]) == ["<built-in function len>", "{1}"]

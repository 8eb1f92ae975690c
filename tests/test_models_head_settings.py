from __future__ import annotations

import math

import pytest

from admire.base.errors import UserError
from admire.models.head_settings import HeadTraining


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("hidden", 0),
        ("output", 1.5),
        ("dropout", 1.0),
        ("residual", 1),
        ("glosses_only", None),
        ("batch_size", 0),
        ("learning_rate", math.inf),
        ("weight_decay", -1e-9),
        ("soft_negatives", -1),
        ("temperature", math.nan),
        ("epochs", 0),
        ("patience", True),
        ("seed", -1),
    ],
)
def test_a_setting_that_means_nothing_is_refused(name, bad):
    with pytest.raises(UserError, match=rf"^{name} cannot be {bad}: it should be ") as raised:
        HeadTraining(**{name: bad})
    assert raised.value.settings == (name,)

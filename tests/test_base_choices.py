from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admire.base.choices import Number, check_settings
from admire.base.errors import UserError


@dataclass(frozen=True)
class Tea:
    kind: str | None = "green"
    minutes: float | None = 3.0
    cups: int = 1
    milk: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        check_settings(
            self,
            kind=("green", "black", None),
            minutes=Number(0, 60, above=True, below=True, optional=True),
            cups=Number(1, whole=True),
            milk=bool,
            name=str | None,
        )


def test_right_values_and_none_where_it_may_be_are_taken():
    assert Tea("black", 59.9, 7, True, "mine") == Tea("black", 59.9, 7, True, "mine")
    assert Tea(None, None).kind is None


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            {"kind": "grene"},
            "kind cannot be 'grene'. Did you mean 'green'? There are: green, black.",
        ),
        ({"kind": 7}, "kind cannot be 7. There are: green, black."),
        ({"minutes": 0}, "minutes cannot be 0: it is a number above 0 and below 60."),
        ({"minutes": math.nan}, "minutes cannot be nan: it is a number above 0 and below 60."),
        ({"cups": 0}, "cups cannot be 0: it is a whole number of at least 1."),
        ({"cups": 1.0}, "cups cannot be 1.0: it is a whole number of at least 1."),
        ({"cups": True}, "cups cannot be True: it is a whole number of at least 1."),
        ({"cups": None}, "cups cannot be None: it is a whole number of at least 1."),
        ({"milk": "no"}, "milk cannot be 'no': it is True or False."),
        ({"name": 3}, "name cannot be 3: it is a text or None."),
    ],
    ids=str,
)
def test_a_wrong_value_is_named_with_what_it_may_be(wrong, says):
    with pytest.raises(UserError) as error:
        Tea(**wrong)
    assert str(error.value) == says
    assert error.value.settings == tuple(wrong)


@given(st.floats(), st.floats(-5, 5), st.floats(-5, 5), st.booleans(), st.booleans())
def test_a_number_lies_between_its_bounds(value, low, high, above, below):
    held = value in Number(low, high, above=above, below=below)
    under = low < value if above else low <= value
    over = value < high if below else value <= high
    assert held == (math.isfinite(value) and under and over)


def test_a_class_that_forgets_a_field_is_told_at_once():
    @dataclass(frozen=True)
    class Forgetful:
        cups: int = 1
        sugar: int = 0

        def __post_init__(self) -> None:
            check_settings(self, cups=Number(1))

    with pytest.raises(TypeError, match="sugar"):
        Forgetful()

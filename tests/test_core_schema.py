import math
import pickle
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pytest
from pydantic import BaseModel, Field

from admire.core.errors import UserError
from admire.core.schema import STRICT, Count, check_setting, read_as, settings


@settings(frozen=True)
class Pot:
    litres: float = 1.0


@settings(frozen=True, kw_only=True)
class Tea:
    kind: Literal["green", "black"] | None = "green"
    minutes: Annotated[float, Field(gt=0, lt=60)] | None = 3.0
    cups: Count = 1
    milk: bool = False
    spices: tuple[Literal["ginger", "clove"], ...] = ()
    tin: str | Path | None = None
    pot: Pot = field(default_factory=Pot)

    def __post_init__(self) -> None:
        if self.milk and self.kind == "green":
            raise UserError("Green tea takes no milk.", "milk", "kind")


def test_settings_are_frozen_dataclasses_that_travel_and_can_be_changed():
    tea = Tea(kind="black", minutes=4, spices=("clove",), tin=Path("tin"), pot=Pot(2.0))
    assert pickle.loads(pickle.dumps(tea)) == tea
    assert hash(replace(tea, kind="black")) == hash(tea)
    assert asdict(tea)["pot"] == {"litres": 2.0}
    with pytest.raises(UserError, match="cups cannot be 0"):
        replace(tea, cups=0)
    with pytest.raises(UserError, match="litres cannot be '1'") as error:
        Pot("1")
    assert error.value.settings == ("litres",)
    with pytest.raises(AttributeError):
        tea.cups = 2


def test_a_field_that_is_a_setting_no_more():
    @settings(frozen=True)
    class GreenTea(Tea):
        kind: ClassVar = "green"

    assert "kind" not in asdict(GreenTea())


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"kind": "grene"}, "kind cannot be 'grene'. Did you mean 'green'? Choose from: green, bl"),
        ({"kind": ["green"]}, "kind cannot be ['green']. Did you mean 'green'?"),
        ({"minutes": 0}, "minutes cannot be 0: it should be greater than 0."),
        ({"minutes": math.nan}, "minutes cannot be nan: it should be a finite number."),
        ({"cups": True}, "cups cannot be True: it should be a valid integer."),
        ({"cups": None}, "cups cannot be None: it should be a valid integer."),
        ({"spices": ("clove", "gingre")}, "spices cannot be 'gingre'. Did you mean 'ginger'?"),
        ({"tin": 3}, "tin cannot be 3: it should be a valid string or an instance of Path."),
        ({"pot": {}}, "pot cannot be {}: it should be an instance of Pot."),
        ({"sugar": 1}, "sugar is unknown here."),
        ({"cusp": 1}, "cusp is unknown here. Did you mean 'cups'?"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_named_with_what_it_may_be(wrong, says):
    with pytest.raises(UserError) as error:
        Tea(**wrong)
    assert str(error.value).startswith(says)
    assert error.value.settings == tuple(wrong)


def test_settings_that_do_not_fit_and_single_arguments_are_refused_alike():
    with pytest.raises(UserError, match="takes no milk") as error:
        Tea(milk=True)
    assert error.value.settings == ("milk", "kind")
    check_setting("folds", 2, Count)
    with pytest.raises(UserError, match=r"^folds cannot be '2'"):
        check_setting("folds", "2", Count)


class Order(BaseModel):
    model_config = STRICT

    table: int
    teas: list[Tea | str]
    note: Annotated[str, Field(max_length=5)] = ""


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"teas": []}, ", table: is missing."),
        ({"table": 1, "teas": [], "tip": 2}, ", tip: is unknown here."),
        ({"table": 1, "teas": [], "note": "no sugar"}, ", note: String should have at most 5 char"),
        ({"table": 1, "teas": ["x", 7]}, ", teas[1].Tea: cannot be 7: it should be "),
        (b'{"table": "one", "teas": []}', ", table: cannot be 'one': it should be a valid int"),
        ("{", ": Invalid JSON: EOF"),
        ("7" * 200, ": cannot be 777777"),
    ],
    ids=str,
)
def test_a_row_that_cannot_be_used_is_named_with_file_row_and_field(content, says):
    with pytest.raises(UserError) as error:
        read_as(Order, content, "orders.jsonl, row 3")
    assert str(error.value).startswith(f"orders.jsonl, row 3{says}")
    assert len(str(error.value)) < 200


def test_a_row_is_read_as_python_values_or_json():
    assert read_as(Order, '{"table": 1, "teas": ["mint"]}', "x") == Order(table=1, teas=["mint"])
    assert read_as(Order, {"table": 1, "teas": [Tea()]}, "x").teas == [Tea()]

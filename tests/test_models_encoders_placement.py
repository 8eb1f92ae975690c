"""Where torch runs, and how finely it computes."""

from __future__ import annotations

import pytest

from admire import UserError
from admire.models.encoders.placement import Placement

torch = pytest.importorskip("torch", reason="needs the extra 'clip'")


@pytest.fixture
def there(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The GPUs of this machine."""
    found = getattr(request, "param", [])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in found)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in found)
    return found


@pytest.mark.parametrize(
    ("there", "auto"),
    [([], "cpu"), (["cuda"], "cuda"), (["mps"], "mps"), (["cuda", "mps"], "cuda")],
    indirect=["there"],
)
def test_auto_takes_a_gpu_where_there_is_one(there: list[str], auto: str):
    assert Placement().resolve() == (torch.device(auto), torch.float32)
    assert Placement("cpu", "bfloat16").resolve() == (torch.device("cpu"), torch.bfloat16)
    for device in there:
        assert Placement(device, "float16").resolve() == (torch.device(device), torch.float16)


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize(
    ("placement", "setting", "message"),
    [
        (("cuda",), "device", "torch finds no device 'cuda' here. Use cpu or auto."),
        (("mps",), "device", "torch finds no device 'mps' here. Use cpu or auto."),
        (("auto", "float16"), "precision", "float16 needs a GPU. Use bfloat16 or float32."),
    ],
)
def test_what_is_not_there_is_refused(placement: tuple, setting: str, message: str):
    with pytest.raises(UserError) as caught:
        Placement(*placement).resolve()
    assert (str(caught.value), caught.value.settings) == (message, (setting,))


def test_settings_are_checked():
    with pytest.raises(UserError, match="device cannot be 'gpu'"):
        Placement("gpu")
    with pytest.raises(UserError, match=r"precision cannot be 'float61'. Did you mean 'float16'"):
        Placement("cpu", "float61")

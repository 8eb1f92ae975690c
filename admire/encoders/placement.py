"""On which device a torch model runs, and with what precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from admire.encoders import Device, Precision, Vectors
from admire.errors import UserError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Placement:
    """A device and a precision as the user names them; torch is asked at the first use."""

    device: Device = "auto"
    precision: Precision = "float32"

    def resolve(self) -> tuple[torch.device, torch.dtype]:
        """Torch's own names for them.

        Raises:
            UserError: there is no such device, or it has no such precision.
        """
        import torch

        there = {
            "cuda": torch.cuda.is_available(),
            "mps": torch.backends.mps.is_available(),
            "cpu": True,
        }
        device = self.device
        if device == "auto":
            device = "cuda" if there["cuda"] else "mps" if there["mps"] else "cpu"
        if not there[device]:
            raise UserError(f"torch finds no device '{device}' here. Use --device cpu or auto.")
        if device == "cpu" and self.precision == "float16":
            raise UserError("float16 needs a GPU. Use --precision bfloat16 or float32.")
        return torch.device(device), getattr(torch, self.precision)


def to_numpy(vectors: torch.Tensor) -> Vectors:
    """The tensor in memory, as float32."""
    array: Vectors = vectors.float().cpu().numpy()
    return array

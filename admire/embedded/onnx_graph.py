"""A network for onnxruntime, written operator by operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
"""Where onnxruntime has operators that ONNX lacks."""


class OnnxGraph:
    """Operators and constants, each known by the name of its result."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def constant(self, name: str, values: npt.ArrayLike) -> str:
        """Add a constant and return its name."""
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def constant_in_file(
        self, name: str, kind: int, shape: Sequence[int], file: str, at: int
    ) -> str:
        """Add a constant that is in a file, which onnxruntime maps into memory.

        Args:
            kind: the type of its numbers, as ``onnx.TensorProto`` has it.
            at: where it begins in the file, in bytes.
        """
        tensor = TensorProto(name=name, data_type=kind, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": file, "offset": at}.items():
            tensor.external_data.add(key=key, value=str(value))
        self._constants.append(tensor)
        return name

    def add(
        self, operator: str, *inputs: str, domain: str = "", outputs: int = 1, **how: Any
    ) -> str:
        """Add an operator and return the name of its first output."""
        names = [f"{operator}_{len(self._nodes)}_{k}" for k in range(outputs)]
        self._nodes.append(helper.make_node(operator, inputs, names, domain=domain, **how))
        return names[0]

    def model(
        self,
        inputs: Mapping[str, tuple[int, Sequence[int | str]]],
        output: tuple[str, Sequence[int | str]],
    ) -> bytes:
        """Return the network as an ONNX model.

        Args:
            inputs: the type and the shape of each, by name.
            output: the name that the last operator's result gets, and its shape; its numbers are
                floats.
        """
        name, shape = output
        self._nodes.append(helper.make_node("Identity", self._nodes[-1].output[:1], [name]))
        read = [helper.make_tensor_value_info(name, *value) for name, value in inputs.items()]
        written = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self._nodes, "encoder", read, [written], self._constants)
        versions = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=9)
        return bytes(model.SerializeToString())

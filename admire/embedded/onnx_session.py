"""Networks for onnxruntime: written operator by operator, and opened."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper

from admire.core.machine import cores

if TYPE_CHECKING:
    import onnxruntime


def open_session(
    model: bytes, folder: Path | None = None, threads: int | None = None
) -> onnxruntime.InferenceSession:
    """Open a network, the content of an ONNX file, on the processor; it sends nothing to Microsoft.

    Args:
        folder: of the files that contain its constants.
        threads: how many compute one input; None is one for each core.
    """
    # From 1.29 on it reports its use, unless this is set before it is imported.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or cores()
    # Threads that spin while they wait take the cores from the chat model.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if folder:
        place = "session.model_external_initializers_file_folder_path"
        options.add_session_config_entry(place, str(folder))
    # In a thread, because Ctrl-C is not heard while a library call of seconds lasts.
    pool, where = ThreadPoolExecutor(1), ["CPUExecutionProvider"]
    try:
        return pool.submit(onnxruntime.InferenceSession, model, options, where).result()
    finally:
        pool.shutdown(wait=False)


MICROSOFT = "com.microsoft"  #: where onnxruntime has operators that ONNX lacks


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
    ) -> None:
        """Add a constant of a ``TensorProto`` type that is in a file, from the byte ``at`` on."""
        tensor = TensorProto(name=name, data_type=kind, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=file)
        tensor.external_data.add(key="offset", value=str(at))
        self._constants.append(tensor)

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
        """Return the network as an ONNX model; the output is the last operator's result.

        Inputs have a type and a shape by name, the output a name and a shape.
        """
        name, shape = output
        self._nodes.append(helper.make_node("Identity", self._nodes[-1].output[:1], [name]))
        read = [helper.make_tensor_value_info(name, *value) for name, value in inputs.items()]
        written = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self._nodes, "encoder", read, [written], self._constants)
        versions = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=9)
        return bytes(model.SerializeToString())

"""How networks are opened in onnxruntime."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from admire.core.machine import cores

if TYPE_CHECKING:
    import onnxruntime


def open_session(
    model: bytes, folder: Path | None = None, threads: int | None = None
) -> onnxruntime.InferenceSession:
    """Open a network on the processor. onnxruntime then sends nothing to Microsoft.

    Args:
        model: the content of an ONNX file.
        folder: where the files lie that its constants are in.
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

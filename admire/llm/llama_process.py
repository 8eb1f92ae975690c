"""llama.cpp in a separate process, which ends when its stdin does.

While llama.cpp loads a file, it keeps Python's global lock for seconds, so all threads wait and
Ctrl-C has no effect. If it is stopped then, it deadlocks, and some damaged files make it abort. The
process that needs the model must be safe from all of that.

``python llama_process.py SETTINGS`` writes one line of JSON to stdout once the file is loaded: the
``address`` of the server, or the ``error``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from typing import Any, NoReturn


def serve(settings: dict[str, Any]) -> NoReturn:
    """Load the file and serve it until stdin ends; see LlamaServer for the settings."""
    import xllamacpp

    pipe = os.dup(1)
    os.dup2(2, 1)  # llama.cpp prints to stdout
    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.n_ctx = settings["context"]
    params.n_parallel = settings["batch_size"]
    params.kv_unified = True  # one long question may take the whole context
    # It would take the restored prefixes away from the questions' slots.
    params.cache_ram_mib = 0
    params.slot_save_path = settings["folder"]
    # Half of the weights are repacked, so a mapped file would need memory twice.
    params.load_mode = xllamacpp.llama_load_mode.LLAMA_LOAD_MODE_NONE
    params.cpuparams.n_threads = settings["threads"]
    params.verbosity = 0
    try:
        server = xllamacpp.Server(params)
        answer = {"address": server.listening_address}
    except Exception as error:
        answer = {"error": str(error)}
    with suppress(OSError):  # the reader may have gone
        os.write(pipe, f"{json.dumps(answer)}\n".encode())
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # nobody reads it any more
        os.dup2(2, 1)
        sys.stdin.read()
    os._exit(0)  # without destroying the server


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process decides when this ends
    serve(json.loads(sys.argv[1]))

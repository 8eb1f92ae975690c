"""llama.cpp in a process of its own, which ends when its stdin does.

While llama.cpp loads a file it holds Python's global lock for seconds, so that no thread goes on
and no Ctrl-C is heard; stopped right then, it waits for itself for ever; and a file that it cannot
bear makes it abort. None of that may happen to the process that needs the model.

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
    """Load the file and serve it until stdin ends; LlamaServer says what the settings are."""
    import xllamacpp

    pipe = os.dup(1)
    os.dup2(2, 1)  # llama.cpp prints, too
    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.n_ctx = settings["context"]
    params.n_parallel = settings["together"]
    params.kv_unified = True  # one long question may take the whole context
    # It would take the beginnings that are restored away from the questions' slots.
    params.cache_ram_mib = 0
    params.slot_save_path = settings["folder"]
    # Half of what is loaded is repacked, so mapping the file would hold it twice.
    params.load_mode = xllamacpp.llama_load_mode.LLAMA_LOAD_MODE_NONE
    params.cpuparams.n_threads = settings["threads"]
    params.verbosity = 0
    try:
        server = xllamacpp.Server(params)
        answer = {"address": server.listening_address}
    except Exception as error:
        answer = {"error": str(error)}
    with suppress(OSError):  # it may be that nobody reads it any more
        os.write(pipe, f"{json.dumps(answer)}\n".encode())
        sys.stdin.read()
    os._exit(0)  # the server is not taken apart


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started this decides when it ends
    serve(json.loads(sys.argv[1]))

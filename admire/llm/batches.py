"""OpenAI's Batch API: submits questions, and collects the replies into the cache."""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
import uuid
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from admire.core.errors import UserError
from admire.core.storage import cache_dir, write_whole
from admire.llm.answers import NoReply, Withheld, read_reply
from admire.llm.chat import Question
from admire.llm.openai import OpenAIChat
from admire.llm.session import BoundModel

if TYPE_CHECKING:
    from openai.types import Batch

log = logging.getLogger("admire")

ENDPOINT: Final = "/v1/chat/completions"
REQUESTS, BYTES = 50_000, 200_000_000
"""OpenAI's limits for one file."""
SHOWN = 5
"""How many reasons for missing answers are printed."""
OPEN = ("validating", "in_progress", "finalizing", "cancelling")
TOKEN = "admire"
"""The key of :attr:`Submitted.token` in a batch's metadata."""


@dataclass
class Submitted:
    """A batch whose answers are not collected yet.

    It is saved before it is submitted, so that it can be found again if the process dies.

    Attributes:
        token: our own name for it.
        keys: of the questions, in the cache of replies.
        options: the options of its requests, besides the messages.
        id: the server's name for it; None until the server has given one.
    """

    token: str
    keys: list[str]
    options: list[str]
    id: str | None = None


@dataclass
class State:
    """The state of a chat model's batches, stored in the cache directory.

    Attributes:
        open: those whose answers are not collected yet.
        refusals: parameter, message and options of requests that the server refused.
        failed: why questions cannot be answered by a batch, by their keys.
    """

    open: list[Submitted] = field(default_factory=list)
    refusals: list[tuple[str | None, str, list[str]]] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


STATE = TypeAdapter(State)


class Batches:
    """The batches of one chat model."""

    def __init__(self, llm: BoundModel, model: OpenAIChat):
        self.llm, self.model = llm, model
        name = hashlib.sha256(llm.identity.encode()).hexdigest()[:32]
        self._file = cache_dir() / "batches" / f"{name}.json"
        exists = self._file.exists()
        self._state = STATE.validate_json(self._file.read_bytes()) if exists else State()
        self.open, self.failed = self._state.open, self._state.failed
        for param, message, options in self._state.refusals:
            self.model.refuse(param, message, dict.fromkeys(options))

    def collect(self) -> None:
        """Cache the answers of batches that have ended."""
        where = self.model.address.shown
        for submitted in list(self.open):
            unknown = (
                f"{where} does not know batch {submitted.id}. It may belong to another "
                f"account. Without {self._file}, its questions are submitted again."
            )
            with self._explaining(unknown):
                submitted.id = submitted.id or self._find(submitted.token)
                batch = self.model.client.batches.retrieve(submitted.id) if submitted.id else None
                if batch and batch.status in OPEN:
                    continue
                if batch:
                    self._take_answers(batch, submitted)
            self.open.remove(submitted)
            self._save()
            if batch and batch.status == "failed":
                reasons = batch.errors.data if batch.errors and batch.errors.data else []
                why = " ".join(str(reason.message) for reason in reasons) or "no reason given"
                raise UserError(
                    f"{self.llm.name}: {where} refused batch {batch.id} "
                    f"({self.model.redacted(why)[:300]}). Run the command again to resubmit it."
                )

    def submit(self, questions: Mapping[str, Question]) -> None:
        """Submit questions, by their keys in the cache of replies."""
        for file, keys, options in self._files(questions):
            self._send(file, Submitted(uuid.uuid4().hex, keys, sorted(options)))

    def _find(self, token: str) -> str | None:
        """Return the server's name for a batch with this token; None if none was submitted."""
        batches = self.model.client.batches.list(limit=100)
        return next((b.id for b in batches if (b.metadata or {}).get(TOKEN) == token), None)

    def _take_answers(self, batch: Batch, submitted: Submitted) -> None:
        waiting, problems = set(submitted.keys), []
        for name in filter(None, (batch.output_file_id, batch.error_file_id)):
            for line in self.model.client.files.content(name).iter_lines():
                try:
                    answer = json.loads(line)
                    waiting.remove(answer["custom_id"])
                except (ValueError, KeyError, TypeError, RecursionError):
                    problems.append(f"unexpected line {self.model.redacted(line)[:100]!r}")
                else:
                    problem = self._take(answer, submitted.options)
                    problems += [problem] if problem else []
        answered = sum(self.llm.cached(key) is not None for key in submitted.keys)
        name, count = f"{self.llm.name}: batch {batch.id}", len(submitted.keys)
        log.info("%s (%s) answered %d of %d questions.", name, batch.status, answered, count)
        for problem in [*dict.fromkeys(problems)][:SHOWN]:
            log.warning("%s: %s", name, problem)

    def _take(self, answer: Mapping[str, Any], options: list[str]) -> str | None:
        """Cache the reply in one line of a batch's files; if there is none, return the problem."""
        key = str(answer["custom_id"])
        try:
            response = answer.get("response") or {}
            status, body = response.get("status_code"), response.get("body") or {}
            error = body.get("error") or {}
            reply = read_reply(body) if status == 200 else None
        except Withheld as why:
            return self._give_up(key, str(why))
        except (NoReply, AttributeError) as why:
            return self._give_up(key, f"an answer has no message, but {why}")
        if reply:
            self.llm.store(key, replace(reply, batched=True))
            return None if reply.text.strip() else self._give_up(key, "an answer contains no text")
        if not response:  # expired or cancelled before its turn
            return str((answer.get("error") or {}).get("message") or "not answered")
        param, message = error.get("param"), str(error.get("message"))
        if status in (400, 422) and self.model.refuse(param, message, dict.fromkeys(options)):
            refusal = (param, message, options)
            if refusal not in self._state.refusals:
                self._state.refusals.append(refusal)
            return f"{message} It is omitted from now on."
        problem = f"status {status}: {message}"
        temporary = status == 429 or (status or 0) >= 500
        return self.model.redacted(problem)[:300] if temporary else self._give_up(key, problem)

    def _give_up(self, key: str, problem: str) -> str:
        self.failed[key] = self.model.redacted(problem)[:300]
        return self.failed[key]

    def _files(
        self, questions: Mapping[str, Question]
    ) -> Iterator[tuple[IO[bytes], list[str], set[str]]]:
        """Yield files of requests, small enough, with their questions' keys and options."""
        rest = deque(questions)
        while rest:
            with tempfile.TemporaryFile() as file:
                keys: list[str] = []
                options: set[str] = set()
                while rest and len(keys) < REQUESTS:
                    body = self.model.request(questions[rest[0]])
                    request = {"custom_id": rest[0], "method": "POST", "url": ENDPOINT}
                    line = json.dumps(request | {"body": body}).encode() + b"\n"
                    if keys and file.tell() + len(line) > BYTES:
                        break
                    file.write(line)
                    keys.append(rest.popleft())
                    options |= body.keys() - {"model", "messages"}
                file.seek(0)
                yield file, keys, options

    def _send(self, file: IO[bytes], submitted: Submitted) -> None:
        import openai

        token = submitted.token
        self.open.append(submitted)
        self._save()
        missing = f"{self.model.address.shown} has no Batch API. Use admire rank."
        try:
            with self._explaining(missing):
                client = self.model.client
                uploaded = client.files.create(file=(f"{token}.jsonl", file), purpose="batch")
                # Sent once: if the server's answer is lost, the batch is found by its metadata.
                batch = client.with_options(max_retries=0).batches.create(
                    input_file_id=uploaded.id,
                    endpoint=ENDPOINT,
                    completion_window="24h",
                    metadata={TOKEN: token},
                )
        except UserError as error:
            cause = error.__cause__
            if isinstance(cause, openai.APIStatusError) and cause.status_code < 500:
                self.open.remove(submitted)  # refused, so there is no batch to look for
                self._save()
            raise
        submitted.id = batch.id
        self._save()

    def _save(self) -> None:
        with write_whole(self._file) as file:
            json.dump(asdict(self._state), file)

    @contextmanager
    def _explaining(self, missing: str) -> Iterator[None]:
        """Turn the package's errors into ours; ``missing`` is the message for unknown addresses."""
        import openai

        try:
            yield
        except openai.NotFoundError as error:
            raise UserError(f"{self.llm.name}: {missing}") from error
        except openai.OpenAIError as error:
            raise self.model.explained(error) from error

"""The embedded chat model's states at words in a text. The real model is never loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from admire.models.encoders import Query, open_encoder


class Server:
    """Tokens of three bytes; the state of token k is (k, 1)."""

    def __init__(self, path: Path, *, states: bool):
        self.path, self.read = path, []

    def states(self, text: str) -> tuple[list[bytes], np.ndarray]:
        self.read.append(text)
        pieces = [text.encode()[k : k + 3] for k in range(0, len(text.encode()), 3)]
        return pieces, np.array([(k, 1) for k in range(len(pieces))], dtype=np.float32)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Server]:
    """The servers that were started."""
    started: list[Server] = []

    def start(path: Path, *, states: bool) -> Server:
        started.append(Server(path, states=states))
        return started[-1]

    monkeypatch.setattr(
        "admire.models.encoders.hidden_states.lower_layers", lambda layers: tmp_path / "lower"
    )
    monkeypatch.setattr("admire.models.encoders.hidden_states.LlamaServer", start)
    return started


def direction(*tokens: int) -> list[float]:
    """The unit vector of the mean state of these tokens."""
    mean = np.array([np.mean(tokens), 1])
    return list(mean / np.linalg.norm(mean))


def test_spans_are_in_characters_where_tokens_are_in_bytes(servers: list[Server]):
    # "é" has two bytes, so the span's are 4 to 8: tokens 1 and 2 of "p\xc3\xa9", "s-f", "rio".
    (vector,) = open_encoder("embedded-state").encode_queries([Query("pés-frio", span=(3, 7))])
    assert vector == pytest.approx(direction(1, 2))


def test_without_a_span_the_whole_text_counts_and_a_prompt_stands_before_it(servers: list[Server]):
    encoder = open_encoder("embedded-state")
    vectors = encoder.encode_queries([Query("abcdef"), Query("def", prompt="abc")])
    assert vectors[0] == pytest.approx(direction(0, 1))
    assert vectors[1] == pytest.approx(direction(1))
    (same,) = encoder.encode_texts(["abcdef"], role="query")
    assert same == pytest.approx(vectors[0])


def test_the_model_is_loaded_at_the_first_text_and_reads_each_text_once(servers: list[Server]):
    encoder = open_encoder("embedded-state")
    assert servers == []
    queries = [Query("a night owl", span=span) for span in ((2, 7), (8, 11))]
    for _ in range(2):
        encoder.encode_queries(queries)
    assert [server.read for server in servers] == [["a night owl"]]
    assert encoder.encoded == 2

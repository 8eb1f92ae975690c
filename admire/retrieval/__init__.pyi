from .benchmark import build_benchmark, count_benchmark, write_benchmark
from .evaluation import score_queries, summarise_queries, write_trec
from .index import TextIndex, index_texts, open_index, write_index
from .passages import Passage, Split, read_split, write_split
from .queries import QuerySettings
from .retrieve import Retrieval, RetrieveSettings, retrieve_split
from .retrievers import bm25, by_meaning, dense, tune_bm25
from .run_folder import RetrievalRun, read_retrieval, write_retrieval
from .search import Found, SearchSettings, search_texts
from .texts import read_texts
from .training import RetrieverTraining, train_retriever, train_retrievers

__all__ = [
    "Found",
    "Passage",
    "QuerySettings",
    "Retrieval",
    "RetrievalRun",
    "RetrieveSettings",
    "RetrieverTraining",
    "SearchSettings",
    "Split",
    "TextIndex",
    "bm25",
    "build_benchmark",
    "by_meaning",
    "count_benchmark",
    "dense",
    "index_texts",
    "open_index",
    "read_retrieval",
    "read_split",
    "read_texts",
    "retrieve_split",
    "score_queries",
    "search_texts",
    "summarise_queries",
    "train_retriever",
    "train_retrievers",
    "tune_bm25",
    "write_benchmark",
    "write_index",
    "write_retrieval",
    "write_split",
    "write_trec",
]

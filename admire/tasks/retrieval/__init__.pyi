from .passages import Passage, Split, read_split
from .query_scores import score_queries, summarise_queries, write_trec
from .retrieve import Retrieval, retrieve_split
from .run_folder import RetrievalRun, read_retrieval, write_retrieval
from .settings import QuerySettings, RetrieverTraining, RetrieveSettings
from .similarities import bm25, by_meaning, dense, tune_bm25
from .training import train_retriever, train_retrievers

__all__ = [
    "Passage",
    "QuerySettings",
    "Retrieval",
    "RetrievalRun",
    "RetrieveSettings",
    "RetrieverTraining",
    "Split",
    "bm25",
    "by_meaning",
    "dense",
    "read_retrieval",
    "read_split",
    "retrieve_split",
    "score_queries",
    "summarise_queries",
    "train_retriever",
    "train_retrievers",
    "tune_bm25",
    "write_retrieval",
    "write_trec",
]

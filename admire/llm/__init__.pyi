from .bound_model import BoundModel
from .chat import ChatModel, Conversation, Image, Question, Reply, Unusable, Usage
from .conversation import ask, converse
from .session import Session, open_llm

__all__ = [
    "BoundModel",
    "ChatModel",
    "Conversation",
    "Image",
    "Question",
    "Reply",
    "Session",
    "Unusable",
    "Usage",
    "ask",
    "converse",
    "open_llm",
]

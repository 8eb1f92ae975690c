"""Idiomatic semantic textual similarity: SemEval-2022 Task 2B and ChengyuSTS."""

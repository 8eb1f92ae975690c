import pytest

from admire.core.machine import prefetch


def test_results_come_in_order_and_after_ctrl_c_nothing_more_is_begun(monkeypatch):
    monkeypatch.setenv("ADMIRE_THREADS", "1")
    begun: list[int] = []

    def square(number: int) -> int:
        begun.append(number)
        if number == 3:
            raise KeyboardInterrupt
        return number * number

    results = prefetch(square, range(100), depth=4)
    assert [next(results) for _ in range(3)] == [0, 1, 4]
    with pytest.raises(KeyboardInterrupt):
        next(results)
    assert len(begun) < 9

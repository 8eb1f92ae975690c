"""A metric: whether the best candidate is among the first two."""

from collections.abc import Sequence

from admire.core.registry import register
from admire.data.items import Item


@register("metric", "hit-at-2", heading="Hit@2", share=True)
def hit_at_2(order: Sequence[str], item: Item) -> float:
    """The share of items whose best candidate is among the first two."""
    return float(item.best in order[:2])

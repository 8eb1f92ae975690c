import pytest


def test_the_pinned_torch_and_torchvision_fit_together():
    """A torch of another build loads, but torchvision's operators are then missing."""
    torch = pytest.importorskip("torch", reason="needs the extra 'clip'")
    ops = pytest.importorskip("torchvision.ops", reason="needs the extra 'clip'")
    boxes = torch.tensor([[0.0, 0, 2, 2], [0, 0, 2, 1.9], [5, 5, 6, 6]])
    assert ops.nms(boxes, torch.tensor([0.5, 0.9, 0.1]), 0.5).tolist() == [1, 2]

"""What the comparison of the other tests lets pass, and what not."""

import pytest
import torch
from numeric import Inaccurate, assert_close

INF, NAN = float("inf"), float("nan")


def f16(*values):
    return torch.tensor(values, dtype=torch.float16)


def test_where_eager_overflowed_on_the_way_the_exact_value_is_as_good():
    eager, exact = f16(INF, NAN, 3, INF), torch.tensor([2e4, -5.0, 3.0, 1e6], dtype=torch.float64)
    assert_close(f16(2e4, -5, 3, INF), eager, exact, "exact")
    assert_close(eager, eager, exact, "eager's")
    with pytest.raises(Inaccurate):
        assert_close(f16(2.2e4, -5, 3, INF), eager, exact, "neither")
    with pytest.raises(AssertionError, match="special values"):
        assert_close(f16(-INF, -5, 3, INF), eager, exact, "another sign")
    with pytest.raises(AssertionError, match="special values"):
        assert_close(f16(2e4, -5, 3, 3e4), eager, exact, "finite where 16 bits hold no result")


def test_f32_follows_eager_where_it_overflows():
    eager, exact = torch.tensor([INF]), torch.tensor([2.0], dtype=torch.float64)
    with pytest.raises(AssertionError, match="special values"):
        assert_close(torch.tensor([2.0]), eager, exact, "finite")

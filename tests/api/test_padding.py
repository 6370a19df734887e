"""What fills up the rows of a temporary is no data, and computing with it does no harm."""

import numpy as np
import pytest

from kohakuaccel.lang import dims, stage
from kohakutpu import api as ktpu
from kohakutpu import lang as L
from kohakutpu.lang import kernel

pytestmark = pytest.mark.golden

M, N = dims("M, N")


@kernel
def parts_of_rows(x=L.In(..., M, N), y=L.Out(..., M, N)):
    h = L.temp(M, N)
    with stage(x.rows(2)) as r:
        h[r] <<= x[r] + 1
    with stage(x.parts(48)) as e:
        y[e] <<= h[e] * 2


def test_parts_of_a_temporary_written_by_rows() -> None:
    array = np.arange(2 * 5 * 21, dtype=np.float16).reshape(2, 5, 21) / 8
    found = parts_of_rows(ktpu.tensor(array)).numpy()
    assert np.array_equal(found, (array + 1) * 2)

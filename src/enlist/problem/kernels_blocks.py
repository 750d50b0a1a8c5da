"""What one block of threads does for a convolution, in Pallas' language for Triton; `kernels_conv` cuts the work up.

m counts places (image, row, column), k the taps of a filter (row, column, channel), o the filters. Sizes need not be
multiples of a block's: what is outside is masked.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array


class Geometry(NamedTuple):
    """What a convolution reads and writes.

    Args:
        images, height, width, channels: what is read.
        rows, columns, filters: of the filters.
        down, across: places of the output, before a pool.
        stride: as everywhere.
        padding: zeros above and to the left of what is read.
        window: side of the pool that follows, 1 for none.
        turned: whether the filters are read back to front, from what were their outputs to their inputs.
    """

    images: int
    height: int
    width: int
    channels: int
    rows: int
    columns: int
    filters: int
    down: int
    across: int
    stride: int = 1
    padding: tuple[int, int] = (0, 0)
    window: int = 1
    turned: bool = False

    @property
    def taps(self) -> int:
        """Length of a patch."""
        return self.rows * self.columns * self.channels

    @property
    def written(self) -> tuple[int, int, int]:
        """Images, rows and columns of what is written."""
        return self.images, self.down // self.window, self.across // self.window

    @property
    def places(self) -> int:
        """How many places are written."""
        images, down, across = self.written
        return images * down * across

    @property
    def overlaps(self) -> bool:
        """Whether patches reach beyond the image."""
        below = (self.down - 1) * self.stride + self.rows - self.padding[0] > self.height
        beside = (self.across - 1) * self.stride + self.columns - self.padding[1] > self.width
        return max(self.padding) > 0 or below or beside


class Tile(NamedTuple):
    """What a block works on.

    Args:
        places, filters, taps: how many at a time.
        warps: of its threads.
        stages: loads under way at once.
        whole: whether, of a convolution with a pool, all places of a window are gone through in one step.
    """

    places: int
    filters: int
    taps: int
    warps: int = 4
    stages: int = 3
    whole: bool = False

    @property
    def compiled(self) -> Any:
        """As Triton wants to be told."""
        return triton.CompilerParams(num_warps=self.warps, num_stages=self.stages)


def forward(g: Geometry, tile: Tile, x_ref: Any, w_ref: Any, y_ref: Any, hits_ref: Any = None) -> None:
    """Some filters at some places of the output; with a pool, the largest of each window and where it was."""
    m = pl.program_id(0) * tile.places + jnp.arange(tile.places)
    o = pl.program_id(1) * tile.filters + jnp.arange(tile.filters)
    corners = [(i, j) for i in range(g.window) for j in range(g.window)]

    def step(s: Any, sums: list[Array]) -> list[Array]:
        k = s * tile.taps + jnp.arange(tile.taps)
        w = _taps(g, w_ref, k, o)
        pairs = zip(sums, corners, strict=True)
        return [total + _dot(_patches(g, x_ref, m, k, corner), w, 1, 0) for total, corner in pairs]

    none = [jnp.zeros((tile.places, tile.filters), jnp.float32) for _ in corners]
    sums = lax.fori_loop(0, pl.cdiv(g.taps, tile.taps), step, none)
    where, mask = (m[:, None], o[None, :]), _inside(m, g.places, o, g.filters)
    y = sums[0]
    if g.window > 1:
        y = jnp.maximum(jnp.maximum(sums[0], sums[1]), jnp.maximum(sums[2], sums[3]))
        bits = [jnp.where(total == y, 1 << i, 0) for i, total in enumerate(sums)]
        hits = bits[0] + bits[1] + bits[2] + bits[3]
        triton.store(hits_ref.at[where], hits.astype(jnp.uint8), mask=mask)
    triton.store(y_ref.at[where], y.astype(y_ref.dtype), mask=mask)


def forward_by_rows(g: Geometry, tile: Tile, together: int, x_ref: Any, w_ref: Any, y_ref: Any) -> None:
    """All filters at some places (image, column) of a few rows of the output, without a pool or a stride.

    The image is gone through row by row, what lies outside left out. Each row is read once for all rows of the output
    that it meets: their filters lie side by side in one product.
    """
    m, top = pl.program_id(0) * tile.places + jnp.arange(tile.places), pl.program_id(1) * together
    image, across = lax.div(m, g.across), lax.rem(m, g.across)
    o = jnp.arange(together * tile.filters)
    down, o = top + lax.div(o, tile.filters), lax.rem(o, tile.filters)
    start = jnp.maximum(top - g.padding[0], 0)
    end = jnp.minimum(top + together - 1 + g.rows - g.padding[0], g.height)
    runs = g.channels // tile.taps  # to a pixel

    def step(s: Any, total: Array) -> Array:
        h, along = start + lax.div(s, g.columns * runs), lax.rem(s, g.columns * runs)
        column, channel = lax.div(along, runs), lax.rem(along, runs) * tile.taps + jnp.arange(tile.taps)
        v = across - g.padding[1] + column
        address = (((image * g.height + h) * g.width + v) * g.channels)[:, None] + channel[None, :]
        inside = (m < g.images * g.across) & (v >= 0) & (v < g.width)
        inside = jnp.broadcast_to(inside[:, None], address.shape)
        patches = triton.load(x_ref.at[address], mask=inside, other=0)
        return total + _dot(
            patches, _taps_of_row(g, w_ref, h + g.padding[0] - down, column, channel, o), 1, 0
        )

    none = jnp.zeros((tile.places, together * tile.filters), jnp.float32)
    y = lax.fori_loop(0, (end - start) * (g.columns * runs), step, none)
    # Written in whole blocks of rows and filters, so that only places are masked.
    where = image[:, None], down[None, :], across[:, None], o[None, :]
    mask = jnp.broadcast_to((m < g.images * g.across)[:, None], y.shape)
    triton.store(y_ref.at[where], y.astype(y_ref.dtype), mask=mask)


def filters(g: Geometry, tile: Tile, steps: int, x_ref: Any, dy_ref: Any, *refs: Any) -> None:
    """Part of the gradient of some taps of some filters: the sum over so many steps of places."""
    k = pl.program_id(0) * tile.taps + jnp.arange(tile.taps)
    o = pl.program_id(1) * tile.filters + jnp.arange(tile.filters)
    split, corners = pl.program_id(2), g.window**2
    at_once = corners if tile.whole else 1

    def step(s: Any, total: Array) -> Array:
        turn, first = lax.div(s, corners // at_once), lax.rem(s, corners // at_once)
        m = (split * steps + turn) * tile.places + jnp.arange(tile.places)
        where, mask = (m[:, None], o[None, :]), _inside(m, g.places, o, g.filters)
        dy = triton.load(dy_ref.at[where], mask=mask, other=0)
        if g.window == 1:
            return total + _dot_over_places(_patches(g, x_ref, m, k, (0, 0)), dy)
        hits = triton.load(refs[0].at[where], mask=mask, other=1).astype(jnp.int32)
        share = share_of(dy, hits)
        for i in range(corners) if tile.whole else [first]:
            corner = lax.div(i, g.window), lax.rem(i, g.window)
            part = jnp.where((hits >> i) & 1 == 1, share, jnp.zeros_like(share))
            total += _dot_over_places(_patches(g, x_ref, m, k, corner), part)
        return total

    none = jnp.zeros((tile.taps, tile.filters), jnp.float32)
    total = lax.fori_loop(0, steps * (corners // at_once), step, none)
    where, mask = (split, k[:, None], o[None, :]), _inside(k, g.taps, o, g.filters)
    triton.store(refs[-1].at[where], total.astype(refs[-1].dtype), mask=mask)


def _patches(g: Geometry, x_ref: Any, m: Array, k: Array, corner: tuple[Any, Any]) -> Array:
    """The taps k of the patches at the places m, or at a corner of the windows there; zero outside the image."""
    _, down, across = g.written
    image, place = lax.div(m, down * across), lax.rem(m, down * across)
    top = (lax.div(place, across) * g.window + corner[0]) * g.stride - g.padding[0]
    left = (lax.rem(place, across) * g.window + corner[1]) * g.stride - g.padding[1]
    row, along = lax.div(k, g.columns * g.channels), lax.rem(k, g.columns * g.channels)
    start = ((image * g.height + top) * g.width + left) * g.channels
    address = start[:, None] + (row * (g.width * g.channels) + along)[None, :]
    inside = _inside(m, g.places, k, g.taps)
    if g.overlaps:
        h, v = top[:, None] + row[None, :], left[:, None] + lax.div(along, g.channels)[None, :]
        inside &= (h >= 0) & (h < g.height) & (v >= 0) & (v < g.width)
    return triton.load(x_ref.at[address], mask=inside, other=0)


def _taps(g: Geometry, w_ref: Any, k: Array, o: Array) -> Array:
    """The taps k of the filters o."""
    if g.turned:
        tap, channel = lax.div(k, g.channels), lax.rem(k, g.channels)
        start = (g.rows * g.columns - 1 - tap) * (g.filters * g.channels) + channel
        address = start[:, None] + o[None, :] * g.channels
    else:
        address = k[:, None] * g.filters + o[None, :]
    return triton.load(w_ref.at[address], mask=_inside(k, g.taps, o, g.filters), other=0)


def _taps_of_row(g: Geometry, w_ref: Any, row: Array, column: Array, channel: Array, o: Array) -> Array:
    """Some channels of one column of the filters o, of each filter the row given with it; zero where it has none."""
    tap = row * g.columns + column
    if g.turned:
        start = (g.rows * g.columns - 1 - tap) * (g.filters * g.channels) + o * g.channels
        address = channel[:, None] + start[None, :]
    else:
        address = channel[:, None] * g.filters + (tap * (g.channels * g.filters) + o)[None, :]
    there = jnp.broadcast_to(((row >= 0) & (row < g.rows) & (o < g.filters))[None, :], address.shape)
    return triton.load(w_ref.at[address], mask=there, other=0)


def _inside(a: Array, size: int, b: Array, length: int) -> Array:
    return (a < size)[:, None] & (b < length)[None, :]


def _dot_over_places(a: Array, b: Array) -> Array:
    """a^T b.

    Tensor cores take float32 only with the summed axis first in memory, which here is the places and is not. As
    bfloat16 they take it either way; so each side is split into two of those, and what is lost is below TF32's.
    """
    if a.dtype != jnp.float32 or a.shape[1] < 64:
        return _dot(a, b, 0, 0)
    (high, low), (up, down) = _halves(a), _halves(b)
    return _dot(high, up, 0, 0) + (_dot(high, down, 0, 0) + _dot(low, up, 0, 0))


def _halves(a: Array) -> tuple[Array, Array]:
    high = a.astype(jnp.bfloat16)
    return high, (a - high.astype(a.dtype)).astype(jnp.bfloat16)


def _dot(a: Array, b: Array, i: int, j: int) -> Array:
    return lax.dot_general(a, b, (((i,), (j,)), ((), ())), preferred_element_type=jnp.float32)


def share_of(dy: Array, hits: Array) -> Array:
    """What each of the places that were a window's largest gets of dy."""
    bits = hits.astype(jnp.int32)
    count = (bits & 1) + ((bits >> 1) & 1) + ((bits >> 2) & 1) + ((bits >> 3) & 1)
    part = jnp.where(count == 1, 1.0, jnp.where(count == 2, 1 / 2, jnp.where(count == 3, 1 / 3, 1 / 4)))
    return dy * part.astype(dy.dtype)

"""Convolutions for a GPU on which every worker has its own filters, in Pallas' language for Triton.

A convolution is a matrix product whose left side holds, for each place of the output, the patch of the image under
the filters. Written to memory that matrix is as many times larger than the image as a filter has taps, and moving
it takes longer than the arithmetic. Here it never exists: a block of threads works out the addresses of its part of
the patches, reads them from the image (which by then is in the cache) and multiplies.

    forward              y[m, o]  = sum_k patch[m, k] w[k, o]       a block: some places m, some filters o
    gradient of images   the forward product of y's gradient with the filters turned around
    gradient of filters  dw[k, o] = sum_m patch[m, k] dy[m, o]      a block: some taps k, some filters o

m counts places (image, row, column), k the taps (row, column, channel). Images are `[batch, height, width,
channels]`, so that a patch's row is one run of memory. A convolution that is followed by a 2 x 2 max-pool works out
the four places of a window side by side and writes the largest alone, with four bits that say where it was.

`jax.vmap` over workers only adds blocks. Sizes need not be multiples of a block's: what is outside is masked.
The sizes of blocks were chosen by measuring on an H200.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array

# Blocks that one worker of several should make, so that all parts of a device have work.
BLOCKS = 64


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
    """What a block works on: places, filters and taps at a time; its warps, and loads under way at once."""

    places: int
    filters: int
    taps: int
    warps: int = 4
    stages: int = 3

    @property
    def compiled(self) -> Any:
        """As Triton wants to be told."""
        return triton.CompilerParams(num_warps=self.warps, num_stages=self.stages)


def geometry(x: Array, w: Array, stride: int = 1, padding: int = 0, window: int = 1) -> Geometry:
    """Of a convolution of these images with these HWIO filters."""
    (images, height, width, channels), (rows, columns, _, filters) = x.shape, w.shape
    down = (height + 2 * padding - rows) // stride + 1
    across = (width + 2 * padding - columns) // stride + 1
    read, taps = (images, height, width, channels), (rows, columns, filters)
    return Geometry(*read, *taps, down, across, stride, (padding, padding), window)


def forward(g: Geometry, x: Array, w: Array) -> Any:
    """The convolution; with a pool also, in four bits, which places of each window are its largest."""
    tile = _forward_tile(g, x.dtype)
    out = [jax.ShapeDtypeStruct((g.places, g.filters), x.dtype)]
    if g.window > 1:
        out.append(jax.ShapeDtypeStruct((g.places, g.filters), jnp.uint8))
    made = pl.pallas_call(
        partial(_forward, g, tile),
        out_shape=out,
        grid=(pl.cdiv(g.places, tile.places), pl.cdiv(g.filters, tile.filters)),
        compiler_params=tile.compiled,
        name="convolution",
    )(x.reshape(-1), w.reshape(-1))
    made = [a.reshape(*g.written, g.filters) for a in made]
    return made[0] if g.window == 1 else tuple(made)


def gradient_of_images(g: Geometry, dy: Array, w: Array) -> Array:
    """The forward product of dy with the filters turned around; dy is given before the pool.

    With a stride s, pixels whose rows and columns leave the same remainders meet the same taps, every s-th of them:
    each of the s x s kinds of pixels is a product of its own, and their results interlock.
    """
    s = g.stride
    size = -(-g.height // s), -(-g.width // s)
    kinds = [[_one_kind(g, dy, w, (i, j), size) for j in range(s)] for i in range(s)]
    if s == 1:
        return kinds[0][0]
    whole = jnp.stack([jnp.stack(row, axis=3) for row in kinds], axis=2)
    return whole.reshape(g.images, s * size[0], s * size[1], g.channels)[:, : g.height, : g.width]


def _one_kind(g: Geometry, dy: Array, w: Array, rest: tuple[int, int], size: tuple[int, int]) -> Array:
    # The first tap that meets such a pixel, and how many places further on it does.
    away, first = zip(*(divmod(r + p, g.stride) for r, p in zip(rest, g.padding, strict=True)), strict=True)
    w = w[first[0] :: g.stride, first[1] :: g.stride]
    rows, columns = w.shape[:2]
    if not rows * columns:
        return jnp.zeros((g.images, *size, g.channels), dy.dtype)
    padding = rows - 1 - away[0], columns - 1 - away[1]
    read, taps = (g.images, g.down, g.across, g.filters), (rows, columns, g.channels)
    back = Geometry(*read, *taps, *size, padding=padding, turned=True)
    return forward(back, dy, w)


def gradient_of_filters(g: Geometry, x: Array, dy: Array, hits: Array | None = None) -> Array:
    """The sum over all places, split among blocks where one for each tile of the result would be too few."""
    tile = _filters_tile(g, x.dtype)
    across = pl.cdiv(g.taps, tile.taps), pl.cdiv(g.filters, tile.filters)
    steps = pl.cdiv(g.places, tile.places)
    splits = max(1, min(steps // 16, BLOCKS // (across[0] * across[1])))
    given = [x.reshape(-1), dy.reshape(-1, g.filters)]
    if hits is not None:
        given.append(hits.reshape(-1, g.filters))
    parts = pl.pallas_call(
        partial(_filters, g, tile, pl.cdiv(steps, splits)),
        out_shape=jax.ShapeDtypeStruct((splits, g.taps, g.filters), x.dtype if splits == 1 else jnp.float32),
        grid=(*across, splits),
        compiler_params=tile.compiled,
        name="gradient_of_filters",
    )(*given)
    dw = parts[0] if splits == 1 else parts.sum(axis=0).astype(x.dtype)
    return dw.reshape(g.rows, g.columns, g.channels, g.filters)


def no_hits(g: Geometry) -> Array:
    """What stands for the bits of a pool where no kernel made them."""
    return jnp.zeros((*g.written, g.filters), jnp.uint8)


def unpool(g: Geometry, dy: Array, hits: Array) -> Array:
    """dy at the places of each window that were its largest, shared equally, zero elsewhere."""
    share = _share(dy, hits)
    at = lambda i, j: jnp.where((hits >> (2 * i + j)) & 1 == 1, share, jnp.zeros_like(share))
    whole = jnp.stack([jnp.stack([at(i, 0), at(i, 1)], axis=3) for i in (0, 1)], axis=2)
    images, down, across = g.written
    whole = whole.reshape(images, 2 * down, 2 * across, g.filters)
    return jnp.pad(whole, ((0, 0), (0, g.down % 2), (0, g.across % 2), (0, 0)))


def _share(dy: Array, hits: Array) -> Array:
    bits = hits.astype(jnp.int32)
    count = (bits & 1) + ((bits >> 1) & 1) + ((bits >> 2) & 1) + ((bits >> 3) & 1)
    part = jnp.where(count == 1, 1.0, jnp.where(count == 2, 1 / 2, jnp.where(count == 3, 1 / 3, 1 / 4)))
    return dy * part.astype(dy.dtype)


def _forward(g: Geometry, tile: Tile, x_ref: Any, w_ref: Any, y_ref: Any, hits_ref: Any = None) -> None:
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


def _filters(g: Geometry, tile: Tile, steps: int, x_ref: Any, dy_ref: Any, *refs: Any) -> None:
    k = pl.program_id(0) * tile.taps + jnp.arange(tile.taps)
    o = pl.program_id(1) * tile.filters + jnp.arange(tile.filters)
    split, corners = pl.program_id(2), g.window**2

    def step(s: Any, total: Array) -> Array:
        turn, i = lax.div(s, corners), lax.rem(s, corners)
        m = (split * steps + turn) * tile.places + jnp.arange(tile.places)
        where, mask = (m[:, None], o[None, :]), _inside(m, g.places, o, g.filters)
        dy = triton.load(dy_ref.at[where], mask=mask, other=0)
        if g.window > 1:
            hits = triton.load(refs[0].at[where], mask=mask, other=1).astype(jnp.int32)
            dy = jnp.where((hits >> i) & 1 == 1, _share(dy, hits), jnp.zeros_like(dy))
        corner = lax.div(i, g.window), lax.rem(i, g.window)
        return total + _dot_over_places(_patches(g, x_ref, m, k, corner), dy)

    none = jnp.zeros((tile.taps, tile.filters), jnp.float32)
    total = lax.fori_loop(0, steps * corners, step, none)
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


def _forward_tile(g: Geometry, dtype: Any) -> Tile:
    if g.window > 1:
        narrow = g.taps <= 32
        places = 128 if narrow and dtype == jnp.bfloat16 else 64
        return Tile(places, _power(g.filters, 64), 32, stages=1 if narrow else 3)
    taps, filters = _power(g.taps, 64 if dtype == jnp.bfloat16 else 32), _power(g.filters, 128)
    if g.places < 1024:
        return Tile(64, filters, taps, stages=4)
    return Tile(128, filters, taps, warps=8 if filters > 64 else 4)


def _filters_tile(g: Geometry, dtype: Any) -> Tile:
    # At an image's edge, runs longer than a power of two of channels would be masked number by number.
    run = g.channels & -g.channels if g.overlaps else 128
    taps, filters = _power(g.taps, max(32, min(128, run))), _power(g.filters, 128)
    if taps == 32:
        return Tile(64, filters, taps, stages=1 if dtype == jnp.float32 else 2)
    warps = 8 if taps * filters >= 2**14 or dtype == jnp.float32 else 4
    return Tile(32, filters, taps, warps, 1) if dtype == jnp.float32 else Tile(64, filters, taps, warps)


def _power(size: int, most: int) -> int:
    """The power of two that holds a size, from 16, the least that a tensor core takes, to `most`."""
    return max(16, min(most, 1 << (size - 1).bit_length()))

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

Most patches of small images with much padding reach beyond them: there a block takes whole rows instead of places,
and leaves out those outside.

`jax.vmap` over workers only adds blocks. The sizes of blocks were chosen by measuring on an H200.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array

from enlist.problem import kernels_blocks
from enlist.problem.kernels_blocks import Geometry, Tile, share_of

# Blocks that one worker of several should make, so that all parts of a device have work.
BLOCKS = 64
# Rows of the output that share what is read, where images are gone through row by row.
TOGETHER = 2


def geometry(x: Array, w: Array, stride: int = 1, padding: int = 0, window: int = 1) -> Geometry:
    """Of a convolution of these images with these HWIO filters."""
    (images, height, width, channels), (rows, columns, _, filters) = x.shape, w.shape
    down = (height + 2 * padding - rows) // stride + 1
    across = (width + 2 * padding - columns) // stride + 1
    read, taps = (images, height, width, channels), (rows, columns, filters)
    return Geometry(*read, *taps, down, across, stride, (padding, padding), window)


def forward(g: Geometry, x: Array, w: Array) -> Any:
    """The convolution; with a pool also, in four bits, which places of each window are its largest."""
    if by_rows := _rows_tile(g, x.dtype):
        return _forward_by_rows(g, by_rows, x, w)
    tile = _forward_tile(g, x.dtype)
    out = [jax.ShapeDtypeStruct((g.places, g.filters), x.dtype)]
    if g.window > 1:
        out.append(jax.ShapeDtypeStruct((g.places, g.filters), jnp.uint8))
    made = pl.pallas_call(
        partial(kernels_blocks.forward, g, tile),
        out_shape=out,
        grid=(pl.cdiv(g.places, tile.places), pl.cdiv(g.filters, tile.filters)),
        compiler_params=tile.compiled,
        name="convolution",
    )(x.reshape(-1), w.reshape(-1))
    made = [a.reshape(*g.written, g.filters) for a in made]
    return made[0] if g.window == 1 else tuple(made)


def _forward_by_rows(g: Geometry, tile: Tile, x: Array, w: Array) -> Array:
    blocks = pl.cdiv(g.images * g.across, tile.places), pl.cdiv(g.down, TOGETHER)
    y = pl.pallas_call(
        partial(kernels_blocks.forward_by_rows, g, tile, TOGETHER),
        out_shape=jax.ShapeDtypeStruct((g.images, TOGETHER * blocks[1], g.across, tile.filters), x.dtype),
        grid=blocks,
        compiler_params=tile.compiled,
        name="convolution_by_rows",
    )(x.reshape(-1), w.reshape(-1))
    return y[:, : g.down, :, : g.filters]


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
        partial(kernels_blocks.filters, g, tile, pl.cdiv(steps, splits)),
        out_shape=jax.ShapeDtypeStruct((splits, g.taps, g.filters), x.dtype if splits == 1 else jnp.float32),
        grid=(*across, splits),
        compiler_params=tile.compiled,
        name="gradient_of_filters",
    )(*given)
    dw = parts[0] if splits == 1 else parts.sum(axis=0).astype(x.dtype)
    return dw.reshape(g.rows, g.columns, g.channels, g.filters)


def gradients_with_pool(g: Geometry, x: Array, w: Array, dy: Array, hits: Array) -> tuple[Array, Array]:
    """Of images and of filters, dy given after the pool."""
    whole = unpool(g, dy, hits)
    dx = gradient_of_images(g, whole, w)
    if x.dtype == jnp.float32 and not _narrow(g):
        # It is there anyway; taking it apart in every block of taps again would take longer than reading it.
        return dx, gradient_of_filters(g._replace(window=1), x, whole)
    return dx, gradient_of_filters(g, x, dy, hits)


def no_hits(g: Geometry) -> Array:
    """What stands for the bits of a pool where no kernel made them."""
    return jnp.zeros((*g.written, g.filters), jnp.uint8)


def unpool(g: Geometry, dy: Array, hits: Array) -> Array:
    """dy at the places of each window that were its largest, shared equally, zero elsewhere."""
    share = share_of(dy, hits)
    at = lambda i, j: jnp.where((hits >> (2 * i + j)) & 1 == 1, share, jnp.zeros_like(share))
    whole = jnp.stack([jnp.stack([at(i, 0), at(i, 1)], axis=3) for i in (0, 1)], axis=2)
    images, down, across = g.written
    whole = whole.reshape(images, 2 * down, 2 * across, g.filters)
    return jnp.pad(whole, ((0, 0), (0, g.down % 2), (0, g.across % 2), (0, 0)))


def _forward_tile(g: Geometry, dtype: Any) -> Tile:
    if g.window > 1:
        narrow = _narrow(g)
        places = 128 if narrow and dtype == jnp.bfloat16 else 64
        return Tile(places, _power(g.filters, 64), 32, stages=1 if narrow else 3)
    taps, filters = _power(g.taps, 64 if dtype == jnp.bfloat16 else 32), _power(g.filters, 128)
    if g.places < 1024:
        return Tile(64, filters, taps, stages=4)
    return Tile(128, filters, taps, warps=8 if filters > 64 else 4)


def _rows_tile(g: Geometry, dtype: Any) -> Tile | None:
    """For going through images row by row, where that reads at most half as many rows as patches have."""
    run = min(64, g.channels & -g.channels)
    starts = range(0, g.down, TOGETHER)
    ends = [min(top + TOGETHER - 1 + g.rows - g.padding[0], g.height) for top in starts]
    read = sum(end - max(top - g.padding[0], 0) for top, end in zip(starts, ends, strict=True))
    plain = g.window == g.stride == 1 and dtype == jnp.float32
    if not plain or run < 16 or g.filters > 32 or 2 * read > g.down * g.rows:
        return None
    return Tile(_power(g.images * g.across, 128), _power(g.filters, 32), run)


def _filters_tile(g: Geometry, dtype: Any) -> Tile:
    # At an image's edge, runs longer than a power of two of channels would be masked number by number.
    run = g.channels & -g.channels if g.overlaps else 128
    taps, filters = _power(g.taps, max(32, min(128, run))), _power(g.filters, 128)
    if dtype == jnp.float32 and g.window > 1:
        return Tile(16, _power(g.filters, 32), 32, warps=1, stages=1, whole=True)
    if dtype == jnp.float32 and taps > 32:
        return Tile(32, filters, taps, 8, 1) if g.overlaps else Tile(32, filters, 64, 4, 1)
    if taps == 32:
        return Tile(64, filters, taps, stages=1 if dtype == jnp.float32 else 2)
    return Tile(64, filters, taps, 8 if taps * filters >= 2**14 else 4)


def _narrow(g: Geometry) -> bool:
    """Whether a patch is a run or two of memory: then addresses are most of the work."""
    return g.taps <= 32


def _power(size: int, most: int) -> int:
    """The power of two that holds a size, from 16, the least that a tensor core takes, to `most`."""
    return max(16, min(most, 1 << (size - 1).bit_length()))

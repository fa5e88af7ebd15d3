"""Batches of rows that share a site: equation (5) in natural parameters, for compiled loops."""

from typing import Any

from cavity.factors.network_loops import look, tilt
from cavity.factors.network_noise import compiled


@compiled
def add_sites(
    sizes: Any, starts: Any, work: Any, from_mean: Any, from_variance: Any, weight: float, shift: Any, precision: Any
) -> None:
    """Add the site of every weight, times the weight of the datum, to sums over a batch."""
    in_mean, in_variance, by_mean, by_variance = work[0], work[1], work[6], work[7]
    for layer in range(len(sizes) - 1):
        n_in, n_out, start = sizes[layer] + 1, sizes[layer + 1], starts[layer]
        for i in range(n_in):
            z, s, here = in_mean[layer, i], in_variance[layer, i], start + i * n_out
            for j in range(n_out):
                w, v = from_mean[here + j], from_variance[here + j]
                if layer == 0:
                    slope, bend = z * by_mean[layer, j], z * z * by_variance[layer, j]
                else:
                    slope, bend = tilt(w, z, s, by_mean[layer, j], by_variance[layer, j])
                left = 1.0 - v * bend
                over = weight / left if left > 0.0 else 0.0
                precision[here + j] += bend * over
                shift[here + j] += (slope + w * bend) * over


@compiled
def in_batches(
    rows: Any, slots: Any, rates: Any, weight: Any, counts: Any, X: Any, y: Any, sizes: Any, starts: Any,
    shift: Any, precision: Any, noise: Any, site_shift: Any, site_precision: Any, site_noise: Any,
    filed_shift: Any, filed_precision: Any, filed_noise: Any, filed_weight: Any,
    work: Any, from_mean: Any, from_variance: Any, free: Any, sum_shift: Any, sum_precision: Any,
) -> tuple[float, int]:  # fmt: skip
    """A sweep in batches whose rows share a slot, equation (5) in natural parameters, in place.

    A slot past the last is remembered nowhere. Returned: the sum of log Z, and how many batches had their rate cut.
    """
    total, cuts, size = 0.0, 0, len(shift)
    for b in range(len(rows)):
        k = slots[b]
        kept = k < len(site_shift)
        for i in range(size):
            left = precision[i] - (site_precision[k, i] if kept else 0.0)
            good = left > 0.0
            free[i] = good
            from_variance[i] = 1.0 / left if good else 1.0 / precision[i]
            from_mean[i] = from_variance[i] * (shift[i] - (site_shift[k, i] if kept and good else 0.0))
            sum_shift[i], sum_precision[i] = 0.0, 0.0
        shape, rate = noise[0], noise[1]
        known = kept and shape - site_noise[k, 0] > 1.0 and rate - site_noise[k, 1] > 0.0
        if known:
            shape, rate = shape - site_noise[k, 0], rate - site_noise[k, 1]
        used, more, scale = 0.0, 0.0, 0.0
        for n in rows[b]:
            if n >= len(y):
                continue
            log_mean, one_more, one_scale = look(sizes, starts, from_mean, from_variance, X[n], y[n], shape, rate, work)
            add_sites(sizes, starts, work, from_mean, from_variance, weight[n], sum_shift, sum_precision)
            total += weight[n] * log_mean
            used += weight[n]
            more += weight[n] * one_more
            scale += weight[n] * one_scale
        for i in range(size):  # from sums of sites to moves
            if kept:
                filed_shift[k, i] += sum_shift[i] if free[i] else used * site_shift[k, i]
                filed_precision[k, i] += sum_precision[i] if free[i] else used * site_precision[k, i]
                sum_shift[i] = sum_shift[i] - used * site_shift[k, i] if free[i] else 0.0
                sum_precision[i] = sum_precision[i] - used * site_precision[k, i] if free[i] else 0.0
        if kept:
            filed_noise[k, 0] += more if known else used * site_noise[k, 0]
            filed_noise[k, 1] += scale if known else used * site_noise[k, 1]
            filed_weight[k] += used
            more = more - used * site_noise[k, 0] if known else 0.0
            scale = scale - used * site_noise[k, 1] if known else 0.0
        step, tries = rates[b], 0
        while tries < 40:
            good = noise[0] + step * more > 1.0 and noise[1] + step * scale > 0.0
            for i in range(size):
                good = good and precision[i] + step * sum_precision[i] > 0.0
            if good:
                break
            step *= 0.5
            tries += 1
        cuts += tries > 0
        if tries == 40:
            continue
        over = step / counts[k] if kept else 0.0
        for i in range(size):
            shift[i] += step * sum_shift[i]
            precision[i] += step * sum_precision[i]
            if kept:
                site_shift[k, i] += over * sum_shift[i]
                site_precision[k, i] += over * sum_precision[i]
        noise[0] += step * more
        noise[1] += step * scale
        if kept:
            site_noise[k, 0] += over * more
            site_noise[k, 1] += over * scale
    return total, cuts

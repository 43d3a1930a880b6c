"""Objects and what a path may make of them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st

from aqueduct_core.quicr.media.fragment import Fragment, hole
from aqueduct_core.quicr.media.position import BEGIN, Position


def pieces(whole: Fragment, *cuts: int) -> list[Fragment]:
    """The fragments that one with all of an object becomes, cut at these offsets."""
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(whole.data)}), len(whole.data)]
    return [stretch(whole, start, stop) for start, stop in pairwise(edges)]


def stretch(whole: Fragment, start: int, stop: int) -> Fragment:
    """A fragment of some of its bytes."""
    return whole._replace(
        offset=start,
        data=whole.data[start:stop],
        last=stop == len(whole.data),
        previous=None if start else whole.previous,
    )


def media_of(*sizes: int, start: Position = BEGIN) -> list[Fragment]:
    """Whole objects, each with bytes of its own: groups with so many."""
    out = []
    for group, size in enumerate(sizes, start.group):
        for object in range(start.object if group == start.group else 0, size):
            data = bytes((group * 16 + object,)) * (object * 5 % 7 + 1)
            previous = sizes[group - start.group - 1] if group > start.group else None
            out.append(
                Fragment(group, object, 0, data, True, 0x81, 0, None if object else previous)
            )
    return out


@st.composite
def deliveries(draw: st.DrawFn, wholes: list[Fragment]) -> list[Fragment]:
    """All bytes of the objects, in pieces, some of them twice or overlapping, in any order; some
    with their flags lost (K3); some objects as holes."""
    out = []
    for whole in wholes:
        if draw(st.integers(0, 9)) == 0:
            out.append(hole(whole.position, whole.previous))
            continue
        size = len(whole.data)
        cuts = st.integers(0, size)
        parts = pieces(whole, *draw(st.lists(cuts, max_size=4)))
        for start, stop in draw(st.lists(st.tuples(cuts, cuts), max_size=2)):
            if start < stop:
                parts.append(stretch(whole, start, stop))
        first, *others = parts
        out.append(first)
        out += [each._replace(flags=draw(st.sampled_from([0, whole.flags]))) for each in others]
    return draw(st.permutations(out))

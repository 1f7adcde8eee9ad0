"""Inlines are parted in one go as they are parted piece by piece."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gateway.channels.document import Bold, Break, Code, Inline, Italic, Link, Text
from gateway.delivery.rendering.splitting import beyond, parted, text_of, up_to

_LEAVES: st.SearchStrategy[Inline] = st.one_of(
    st.text("ab ", min_size=1, max_size=5).map(Text), st.text("c", min_size=1, max_size=3).map(Code), st.just(Break())
)


def _wrapped(inner: st.SearchStrategy[Inline]) -> st.SearchStrategy[Inline]:
    children = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.one_of(children.map(Bold), children.map(Italic), children.map(lambda some: Link("https://a.b", some)))


INLINES = st.lists(st.recursive(_LEAVES, _wrapped, max_leaves=6), max_size=6).map(tuple)


@given(INLINES, st.lists(st.integers(0, 30), max_size=6).map(sorted))
def test_parted(children: tuple[Inline, ...], cuts: list[int]) -> None:
    cuts = [cut for cut in cuts if cut <= len(text_of(children))]
    parts = parted(children, cuts)
    bounds = [0, *cuts, len(text_of(children))]
    assert [text_of(part) for part in parts] == [text_of(children)[start:end] for start, end in pairwise(bounds)]
    if len(cuts) == 1:
        assert parts == [up_to(children, cuts[0]), beyond(children, cuts[0])]

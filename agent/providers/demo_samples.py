"""The demo's longer texts: every kind of markup that a channel must render, and more than one message can hold."""

MARKDOWN = """\
# A heading

Text with **bold**, *italic*, ~~struck~~ and `code`, and [a link](https://example.org/docs?a=1&b=2).

## A table

| Platform | Streams by | Longest message |
| --- | --- | ---: |
| Telegram | drafts, edits | 4,096 |
| Discord | edits | 2,000 |
| Slack | chunks | 12,000 |

## Lists

1. first
2. second
   - nested, with `code`
   - and an emoji 👩‍🚀
3. third

- [x] packed
- [ ] sent

## Code

```python
def greet(name: str) -> str:
    \"\"\"Say hello; <tags> & ampersands stay as they are.\"\"\"
    return f"Hello, {name}!"
```

> A quotation
> of two lines.

---

That is the end of the sample."""

_SECTION = """\
## Part {number}

This answer is long on purpose: it does not fit into one message, so it is cut between blocks, and nothing is lost. \
Part {number} says so again, with an emoji {emoji}, **bold** words, `code` and umlauts: Grüße aus Köln.

```python
def part_{number}(values: list[int]) -> int:
    total = 0
    for value in values:
        total += value * {number}
    return total
```

| part | square | cube |
| ---: | ---: | ---: |
| {number} | {square} | {cube} |

- a first point of part {number}
- a second point, a little longer than the first, so that lines wrap on a telephone
"""

_EMOJI = ("🚀", "🌍", "👩‍🚀", "🎉", "🇪🇺", "❤️", "🧪", "🐍", "👍🏽", "✨", "📚", "🔭")


def long_text(parts: int) -> str:
    """A text of about 600 characters a part."""
    sections = (
        _SECTION.format(number=number, square=number**2, cube=number**3, emoji=_EMOJI[number % len(_EMOJI)])
        for number in range(1, parts + 1)
    )
    return "# A long answer\n\n" + "\n".join(sections) + f"\nAll {parts} parts have arrived."


LONG = long_text(14)

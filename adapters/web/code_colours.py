"""Syntax colours of a code block: comments, strings, numbers and keywords as HTML spans. Pure.

Every expression takes each sign once. A lexer library was measured: 5,000 hostile signs (newlines, slashes) held it for
ten seconds, and its expressions cannot be interrupted.
"""

import re
from collections.abc import Mapping
from html import escape
from types import MappingProxyType

LONGEST = 20_000  # characters; a longer block is shown without colours

_TRIPLE = r"""\"{3}(?:[^"]|"(?!""))*+(?:"{3})?|'{3}(?:[^']|'(?!''))*+(?:'{3})?"""
_STRING = rf"""(?P<s>{_TRIPLE}|"(?:[^"\\\n]|\\.)*+"?|'(?:[^'\\\n]|\\.)*+'?)"""
_REST = r"(?P<n>\b\d[\w.]*+)|(?P<w>[^\W\d]\w*+)"
_SLASHES = re.compile(
    rf"(?P<c>//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?)|(?P<t>`(?:[^`\\]|\\.)*+`?)|{_STRING}|{_REST}", re.DOTALL
)
_HASH = re.compile(rf"(?P<c>#[^\n]*+)|{_STRING}|{_REST}", re.DOTALL)
_DASHES = re.compile(rf"(?P<c>--[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?)|{_STRING}|{_REST}", re.DOTALL)

_SHARED = "if else for while return break continue true false null"
_C = (
    f"{_SHARED} switch case default do goto struct enum union static const void int char float double long short"
    " unsigned"
)
_CURLY = (
    f"{_C} class new this super public private protected interface extends implements import package try catch finally"
    " throw throws var let function async await typeof instanceof export from of in yield type func fn impl trait match"
    " mut pub use mod crate self Self where go chan defer map range nil fun val when object override namespace using"
    " bool string boolean byte undefined template typename virtual final abstract echo foreach as is guard extension"
)
_PYTHON = (
    "and as assert async await break class continue def del elif else except finally for from global if import in is"
    " lambda match nonlocal not or pass raise return try while with yield case True False None"
)
_RUBY = (
    f"{_SHARED} def end class module begin rescue ensure do then unless until yield self nil and or not require elsif"
)
_SHELL = (
    "if then else elif fi for in do done while until case esac function return local export readonly set unset exit"
)
_DATA = "true false null yes no on off"
_SQL = (
    "select from where insert into values update set delete create table index drop alter add primary key foreign"
    " references not null and or in is like between join left right inner outer full on group by order having limit"
    " offset union all distinct as case when then else end begin commit rollback with asc desc default unique view"
)

_LANGUAGES: Mapping[str, tuple[re.Pattern[str], frozenset[str]]] = MappingProxyType(
    {
        name: (pattern, frozenset(words.split()))
        for names, pattern, words in (
            ("python py python3 pycon", _HASH, _PYTHON),
            ("ruby rb", _HASH, _RUBY),
            ("bash sh shell zsh console dockerfile docker makefile make", _HASH, _SHELL),
            ("yaml yml toml ini conf properties", _HASH, _DATA),
            ("json json5 jsonc css scss", _SLASHES, _DATA),
            ("c h cpp c++ cc hpp csharp cs java kotlin kt scala swift dart php", _SLASHES, _CURLY),
            ("javascript js jsx typescript ts tsx go golang rust rs zig", _SLASHES, _CURLY),
            ("sql postgresql mysql sqlite", _DASHES, f"{_SQL} {_SQL.upper()}"),
        )
        for name in names.split()
    }
)


def coloured(code: str, language: str) -> str:
    """The code as HTML; plain for a language that is not known and for a long block."""
    known = _LANGUAGES.get(language.lower())
    if known is None or len(code) > LONGEST:
        return escape(code, quote=False)
    pattern, keywords = known
    pieces, end = [], 0
    for found in pattern.finditer(code):
        kind = found.lastgroup
        if kind == "w" and found[0] not in keywords:
            continue
        pieces.append(escape(code[end : found.start()], quote=False))
        pieces.append(f'<span class="{"s" if kind == "t" else kind}">{escape(found[0], quote=False)}</span>')
        end = found.end()
    pieces.append(escape(code[end:], quote=False))
    return "".join(pieces)

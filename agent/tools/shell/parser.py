"""Takes a shell command apart far enough to judge it: simple commands, operators, what it would expand. Pure.

It errs to the careful side: whatever it cannot read is said to be unreadable, and then a person is asked.
"""

import codecs
import re
from dataclasses import dataclass, field

_OPERATORS = (
    "&>>", "<<<", "<<-", ";;&", "|&", "&&", "||", ";;", ";&", ">>", "<<", ">&", "<&", ">|", "<>", "&>",
    ";", "&", "|", "(", ")", "<", ">", "\n",
)  # fmt: skip
REDIRECTIONS = frozenset({">", ">>", "<", "<<", "<<-", "<<<", ">&", "<&", ">|", "<>", "&>", "&>>"})
_GROUPS = frozenset({"{", "}", "!", "if", "then", "else", "elif", "fi", "do", "done", "while", "until", "case", "esac"})


class Unreadable(Exception):
    """The command is not written as a shell would take it, or nobody can tell how it would."""


@dataclass(slots=True)
class Word:
    """One word without its quotes. `expands`: the shell would put something else in its place, or several words.

    `globs`: where in the text a `*`, `?` or `[` stands that names of files may take the place of.
    """

    text: str = ""
    expands: bool = False
    globs: list[int] = field(default_factory=list)
    begun: bool = False  # "" is a word too


@dataclass(slots=True)
class Reading:
    """`commands` are lists of words, `targets` what is redirected to or from, `inner` the text of substitutions."""

    commands: list[list[Word]] = field(default_factory=list)
    operators: set[str] = field(default_factory=set)
    targets: list[tuple[str, Word]] = field(default_factory=list)
    inner: list[str] = field(default_factory=list)


def read(command: str) -> Reading:
    """The parts of a command. Raises Unreadable."""
    return _Reader(command).read()


class _Reader:
    """Goes through the text once, sign by sign."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._word = Word()
        self._words: list[Word] = []
        self._redirection = ""
        self._found = Reading()

    def read(self) -> Reading:
        text = self._text
        while self._at < len(text):
            sign = text[self._at]
            if sign in " \t\r":
                self._end_word()
                self._at += 1
            elif sign == "#" and not self._word.begun:
                end = text.find("\n", self._at)
                self._at = len(text) if end < 0 else end
            elif sign in "<>" and text[self._at + 1 : self._at + 2] == "(":
                self._found.operators.add(f"{sign}(")
                self._substitution(self._at + 1)
            elif operator := next((one for one in _OPERATORS if text.startswith(one, self._at)), None):
                self._operator(operator)
            else:
                self._sign(sign)
        self._end_command()
        return self._found

    def _sign(self, sign: str) -> None:
        match sign:
            case "\\":
                self._escaped()
            case "'":
                end = self._find("'", self._at + 1)
                self._add(self._text[self._at + 1 : end])
                self._at = end + 1
            case '"':
                self._quoted()
            case "$" | "`":
                self._expansion()
            case _:
                word = self._word
                if sign in "*?[":
                    word.globs.append(len(word.text))
                elif sign == "~":  # bash takes a=~ for an assignment wherever it stands
                    word.expands |= word.text[-1:] in ("", "=", ":")
                elif sign == "{" and not self._alone():
                    word.expands = True
                self._add(sign)
                self._at += 1

    def _escaped(self) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        if following != "\n":  # a line that goes on
            self._add(following)
        self._at += 2

    def _quoted(self) -> None:
        self._at += 1
        self._word.begun = True
        while True:
            if self._at >= len(self._text):
                raise Unreadable("a quote is not closed")
            sign = self._text[self._at]
            if sign == '"':
                self._at += 1
                return
            if sign == "\\":
                self._escaped()
            elif sign in "$`":
                self._expansion()
            else:
                self._add(sign)
                self._at += 1

    def _expansion(self) -> None:
        """`$…` or a backtick; what it would become is not known."""
        self._word.begun = self._word.expands = True
        text, at = self._text, self._at
        if text[at] == "`":
            end = self._find("`", at + 1)
            self._found.operators.add("`")
            self._found.inner.append(text[at + 1 : end])
            self._at = end + 1
        elif text.startswith("$(", at):
            self._found.operators.add("$(")
            self._substitution(at + 1)
        elif text.startswith("$'", at):
            quoted = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL).match(text, at)
            if quoted is None:
                raise Unreadable("a quote is not closed")
            self._add(_decoded(quoted[1]))
            self._at = quoted.end()
        elif text.startswith("${", at):
            self._at = self._find("}", at) + 1
        else:
            self._add("$")
            self._at += 1

    def _substitution(self, opening: int) -> None:
        """Read a command of its own between parentheses."""
        depth, at = 0, opening
        while at < len(self._text):
            depth += {"(": 1, ")": -1}.get(self._text[at], 0)
            at += 1
            if not depth:
                self._found.inner.append(self._text[opening + 1 : at - 1])
                self._word.begun = self._word.expands = True
                self._at = at
                return
        raise Unreadable("a parenthesis is not closed")

    def _operator(self, operator: str) -> None:
        self._end_word()
        self._found.operators.add(operator)
        self._at += len(operator)
        if operator in REDIRECTIONS:
            self._redirection = operator
        else:
            self._end_command()

    def _end_word(self) -> None:
        if not self._word.begun:
            return
        if self._redirection:
            self._found.targets.append((self._redirection, self._word))
            self._redirection = ""
        elif not self._words and self._word.text in _GROUPS:
            self._found.operators.add(self._word.text)
        else:
            self._words.append(self._word)
        self._word = Word()

    def _end_command(self) -> None:
        self._end_word()
        if self._words:
            self._found.commands.append(self._words)
        self._words = []

    def _alone(self) -> bool:
        return not self._word.begun and self._text[self._at + 1 : self._at + 2] in ("", " ", "\n", "\t")

    def _add(self, text: str) -> None:
        self._word.begun = True
        self._word.text += text

    def _find(self, sign: str, start: int) -> int:
        end = self._text.find(sign, start)
        if end < 0:
            raise Unreadable(f"{sign} is not closed")
        return end


def _decoded(written: str) -> str:
    try:
        return codecs.decode(written.encode("latin-1", "backslashreplace"), "unicode_escape")
    except UnicodeDecodeError as error:
        raise Unreadable("an escape is not readable") from error

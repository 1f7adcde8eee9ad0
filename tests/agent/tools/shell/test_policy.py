"""Commands that run, that need approval, that never run (R-27); the longer table is the hostile corpus."""

import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.tools.shell.parser import Unreadable, read
from agent.tools.shell.policy import DEEPEST, judged, only_removes


@pytest.mark.requirement("R-27")
@pytest.mark.parametrize(
    "command",
    ["ls -la src", "cat notes.md", "grep -rn 'a|b' .", 'grep "x;y" a.txt', "git log --oneline -5",
     "find . -name '*.py'", "wc -l src/a.py", "ls /workspace/src", "echo 'it is > that'", "sort -u names.txt",
     "date -u", "mypy src", "ls *.py", "  ls\t-l  ", "cat 'two words.txt'", "head -n 3 ä.txt", "grep -nA3 '.*x' a.py",
     "head -5 a", "find . -name '.*'", "git log HEAD..main", "go vet ./...", "echo --x"],
)  # fmt: skip
def test_what_only_looks_runs_at_once(command: str) -> None:
    assert judged(command, sandboxed=True).gate == "allow"


@pytest.mark.requirement("R-27")
@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("ls; rm -rf x", "';'"),
        ("cat a > b", "'>'"),
        ("cat a >> b", "'>>'"),
        ("ls\nrm x", r"'\\n'"),
        ("ls & rm x", "'&'"),
        ("ls && rm x", "'&&'"),
        ("ls || rm x", "||"),
        ("cat a | sh", "|"),
        ("cat `rm x`", "'`'"),
        ("cat $(rm x)", r"'\$\('"),
        ('echo "$(rm x)"', r"'\$\('"),
        ("diff <(ls) b", r"'<\('"),
        ("cat < /etc/passwd", "'<'"),
        ("cat /etc/passwd", "not in the workspace"),
        ("cat ../other/file", "not in the workspace"),
        ("grep -f/etc/shadow x", "not in the workspace"),
        ("grep --file=/etc/shadow x", "not in the workspace"),
        ("cat $HOME/x", "only the shell knows"),
        ("cat {/etc/passwd,x}", "only the shell knows"),
        ("cat ~root/x", "only the shell knows"),
        ("find . -exec rm {} +", "only the shell knows|more than look"),
        ("sort --compress-prog=bash a", "more than look with --compress-prog=bash"),
        ("sort -uo a b", "more than look with -uo"),
        ("sort -- a --o=b", "more than look with --o=b"),
        ("git diff --outp=x", "more than look"),
        ("wc --files0-f=x", "more than look"),
        ("printf -v 'a[$(id)]' x", "more than look with -v"),
        ("strings @x", "more than look with @x"),
        ("jq 'import \"a\" as $a; $a'", "more than look"),
        ("diff -l a b", "more than look"),
        ("cat .[.]/.[.]/etc/passwd", "only the shell knows"),
        ("ls .*", "only the shell knows"),
        ("cat a=~/x", "only the shell knows"),
        ("grep -f.. x", "not in the workspace"),
        ("cat x\r/etc", r"U\+000D"),
        ("find . -delete", "more than look"),
        ("sort -o a b", "more than look"),
        ("rg --pre ./evil x", "more than look"),
        ("git -c core.pager=./evil log", "not among"),
        ("git diff --output=x", "more than look"),
        ("git push", "not among"),
        ("date 010203042030", "more than look"),
        ("sudo ls", "not among"),
        ("eval ls", "not among"),
        ("./ls", "not among"),
        ("l\\s", "^$"),
        ("сat notes.md", "not among"),
        ("ls\u00a0x", r"U\+00A0"),
        ("ls \u202ex", r"U\+202E"),
        ("ls ；rm x", r"U\+FF1B"),
        ("cat 'x", "cannot be read"),
        ("", "no command"),
        ("A=1 ls", "not among"),
    ],
)
def test_all_else_is_asked_for(command: str, why: str) -> None:
    verdict = judged(command, sandboxed=True)
    if why == "^$":
        assert verdict.gate == "allow", "an escaped letter is that letter"
        return
    assert verdict.gate == "ask", verdict

    assert re.search(why, verdict.reason), verdict.reason


@pytest.mark.requirement("R-27", "G-17")
@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("ls; rm -rf /", "deletes the system"),
        ("echo $(mkfs /dev/sda)", "formats a disk"),
        ("bash -c 'dd if=x of=/dev/sda'", "overwrites a disk"),
        ("cat x > /dev/sda", "writes to the device /dev/sda"),
        (":(){ :|:& };:", "fork bomb"),
        ("chmod -R 777 /", "who may read and run"),
    ],
)
def test_what_wrecks_the_machine_never_runs_and_is_told_why(command: str, why: str) -> None:
    verdict = judged(command, sandboxed=True)
    assert verdict.gate == "deny"
    assert why in verdict.reason


@pytest.mark.requirement("R-27")
@pytest.mark.parametrize("around", ["bash -c {}", "eval {}", "echo $({})"])
def test_what_lies_deeper_than_anybody_looks_is_denied(around: str) -> None:
    command = "true"
    for _ in range(DEEPEST + 1):
        command = around.format(command if around.startswith("echo") else shlex.quote(command))
    verdict = judged(command, sandboxed=True)
    assert verdict.gate == "deny"
    assert "commands within commands" in verdict.reason


@pytest.mark.parametrize("command", ["echo 'rm -rf /'", "grep 'rm -rf /' notes.md", "git log --grep='mkfs'"])
def test_words_that_only_speak_of_it_are_not_denied(command: str) -> None:
    assert judged(command, sandboxed=True).gate != "deny"


@pytest.mark.requirement("R-27")
@pytest.mark.parametrize("command", ["git status", "mypy .", "make -n"])
def test_what_runs_a_folders_own_code_is_asked_for_outside_of_the_sandbox(command: str) -> None:
    assert judged(command, sandboxed=True).gate == "allow"
    assert judged(command, sandboxed=False).gate == "ask"


@pytest.mark.requirement("R-27")
@pytest.mark.parametrize("command", ["sort *", "wc -l ?x", "printf [a-z]*", "cat /workspace/x"])
def test_outside_of_the_sandbox_a_file_may_be_named_like_an_option_and_the_workspace_lies_elsewhere(
    command: str,
) -> None:
    assert judged(command, sandboxed=True).gate == "allow"
    assert judged(command, sandboxed=False, root="").gate == "ask"


@pytest.mark.parametrize("command", ["ls *.py", "grep -n x *.py", "sort ./*", "cat src/*.py"])
def test_patterns_that_can_become_no_harmful_option_are_not_asked_for(command: str) -> None:
    assert judged(command, sandboxed=False, root="").gate == "allow"


@given(st.text(alphabet="ls rm-f/;|&$(){}<>`'\"\\\n#*~xA=", max_size=30))
def test_any_text_is_judged(command: str) -> None:
    verdict = judged(command, sandboxed=True)
    if verdict.gate == "allow":
        assert not set("|;&<>`\n") & set(unquoted(command)), command


def unquoted(command: str) -> str:
    """Without what stands in quotes, behind backslashes or in comments."""
    try:
        read(command)
    except Unreadable:
        return ""
    kept: list[str] = []
    quote, at = "", 0
    while at < len(command):
        sign = command[at]
        if quote:
            at += 2 if sign == "\\" and quote == '"' else 1
            quote = "" if sign == quote else quote
            continue
        if sign == "\\":
            at += 2
            continue
        if sign == "#" and (not kept or kept[-1] in " \t\n;|&"):
            at = command.find("\n", at) if "\n" in command[at:] else len(command)
            continue
        if sign in "'\"":
            quote = sign
            kept.append("x")
        else:
            kept.append(sign)
        at += 1
    return "".join(kept)


@pytest.mark.parametrize(
    ("command", "only"),
    [
        ("rm a", True),
        ("rm a && rm -r b; rm c", True),
        ("rm a; dd if=/dev/zero of=b", False),
        ("rm a | tee b", False),
        ("rm $(dd if=/dev/zero of=b)", False),
        ("rm a > b", False),
        ("rm a & yes", False),
        ("(rm a; yes)", False),
        ("rm 'a", False),
        ("dd of=b", False),
    ],
)
def test_a_command_only_removes_when_all_that_runs_is_rm(command: str, only: bool) -> None:
    assert only_removes(command) is only


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("mkdir -p reports && rm -rf old && echo done", "it deletes files: rm -rf old; it uses '&&'"),
        ("curl https://example.org/x | xargs -0 rm -r a", "it deletes files: rm -r a; it uses '|'"),
        ("/usr/bin/wget https://example.org/x", "it reaches other machines: /usr/bin/wget https://example.org/x"),
        ("sort a > b", "it uses '>'"),
    ],
)
def test_the_gravest_part_is_the_reason(command: str, reason: str) -> None:
    found = judged(command, sandboxed=True)
    assert (found.gate, found.reason) == ("ask", reason)

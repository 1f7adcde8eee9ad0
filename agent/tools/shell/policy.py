"""Policy of shell commands: those that never run (G-17), those that only look, and the verdict on each. Pure.

A list of forms, not a defence by itself: that is the sandbox. What hides from it still needs a person's word.
"""

import posixpath
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from agent.core.tools import SKILLS, Gate
from agent.tools.files.paths import ROOT
from agent.tools.shell.parser import Reading, Unreadable, Word, read

DEEPEST = 6  # commands within commands
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "su", "runuser"})
# Programs that run the command after them, with the number of their own words besides options.
WRAPPERS = {
    "sudo": 0, "doas": 0, "env": 0, "nice": 0, "nohup": 0, "time": 0, "timeout": 1, "exec": 0, "command": 0,
    "builtin": 0, "busybox": 0, "stdbuf": 0, "setsid": 0, "ionice": 0, "xargs": 0, "chroot": 1, "unshare": 0,
    "watch": 0, "strace": 0, "toybox": 0,
}  # fmt: skip
_WITH_VALUE = {"-n", "-u", "-g", "-s", "-k", "-I", "-P", "-L", "-d", "-i", "-o", "-e", "-C", "-h", "-p", "-t", "-c"}
_SYSTEM = frozenset(
    "/" + name
    for name in ("bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "media", "mnt", "opt", "proc", "root",
                 "run", "sbin", "srv", "sys", "usr", "var", "Users", "System", "Library", "Applications")
)  # fmt: skip
_DEVICE = re.compile(
    r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|dm-|mapper/|md\d|loop|ram\d|sr\d|mem\b|kmem|port\b|rdisk|mtd|nbd)"
)
# Signs that begin a function's definition, end its body, and start one command beside another.
_BOMB_PARTS = re.compile(
    r"(?<![\w:.])(?P<name>[\w:.]++)(?P<empty>\(\))?[{(]++|(?P<ends>[})])|(?<![\w:.])(?P<left>[\w:.]*+)[|&]++(?=(?P<right>[\w:.]*+))"
)
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_ROUGH = re.compile(r"\bmkfs\b|\bof=[\"']?/dev/(?:sd|nvme|vd|hd)")
_ROOT = re.compile(r"[\"']?/(?:[\"'*]|\Z)")  # how a word begins that means it
_RM = re.compile(r"\brm\Z")
_POWER = frozenset({"shutdown", "reboot", "halt", "poweroff"})


def denied(command: str) -> str:
    """Why the command must never run; "" when it is none of those."""
    folded = _INVISIBLE.sub("", unicodedata.normalize("NFKC", command))
    squeezed = "".join(folded.split())
    if _is_bomb(squeezed):
        return "it would start itself without end (a fork bomb)"
    return next(_reasons(folded, 0), "")


def _reasons(command: str, depth: int) -> Iterator[str]:
    if depth > DEEPEST:
        yield f"it holds commands within commands more than {DEEPEST} deep"
        return
    try:
        reading = read(command)
    except Unreadable:
        if _ROUGH.search(command) or _deletes_root(command.split()):
            yield "it looks like one that deletes or overwrites the system"
        return
    yield from _of_targets(reading)
    at_root = False
    for words in reading.commands:
        texts = [word.text for word in words]
        yield from _of_command(texts, at_root=at_root, depth=depth)
        if texts[0] in ("cd", "pushd"):
            at_root = len(texts) > 1 and _is_system(texts[-1])
    for inner in reading.inner:
        yield from _reasons(inner, depth + 1)


def _is_bomb(squeezed: str) -> bool:
    """Whether a function starts itself twice at once, in its own body: `f(){f|f&};f`."""
    defined: set[str] = set()  # whose bodies have not ended
    for part in _BOMB_PARTS.finditer(squeezed):
        if part["ends"] or part["empty"]:
            defined.clear()
        if name := part["name"]:
            defined |= {name, name.removeprefix("function") or name}
        elif left := part["left"]:
            right = part["right"]
            ends = (left[-length:] for length in range(1, min(len(left), len(right)) + 1))
            if defined and any(end in defined and right.startswith(end) for end in ends):
                return True
    return False


def _deletes_root(words: Sequence[str]) -> bool:
    """Whether `rm`, options with an r among them and the root follow each other."""
    for at, word in enumerate(words):
        recursive, before = False, at - 1
        while _ROOT.match(word) and before >= 0:
            if recursive and _RM.search(words[before], max(0, len(words[before]) - 3)):
                return True
            if not words[before].startswith("-") or words[before] == "-":
                break
            recursive = recursive or "r" in words[before].lower()
            before -= 1
    return False


def _of_targets(reading: Reading) -> Iterator[str]:
    for operator, target in reading.targets:
        if ">" in operator and _DEVICE.match(_plain(target)):
            yield f"it writes to the device {target.text}"


def _of_command(texts: Sequence[str], *, at_root: bool, depth: int) -> Iterator[str]:
    words = unwrapped(texts)
    if not words:
        return
    name, rest = posixpath.basename(words[0]), words[1:]
    plain = [word for word in rest if not word.startswith("-")]
    if name == "rm" and _is_recursive(rest) and any(_is_root(one, at_root=at_root) for one in plain):
        yield "it deletes the system's files"
    elif name in ("chmod", "chown", "chgrp") and _is_recursive(rest) and any(map(_is_system, plain)):
        yield "it changes who may read and run the system's files"
    elif name == "find" and any(map(_is_system, plain[:1])) and _find_deletes(rest):
        yield "it deletes the system's files"
    elif name.startswith("mkfs") or name in ("mkswap", "wipefs", "blkdiscard", "sgdisk", "fdisk", "parted"):
        yield "it formats a disk"
    elif name == "dd" and any(one.startswith("of=") and _DEVICE.match(one[3:]) for one in rest):
        yield "it overwrites a disk"
    elif name in ("tee", "cp", "mv", "shred", "install", "truncate") and any(map(_DEVICE.match, plain[-1:])):
        yield f"it writes to the device {plain[-1]}"
    elif name in _POWER or (name in ("init", "telinit") and plain[:1] in (["0"], ["6"])):
        yield "it switches the machine off"
    elif name == "eval":
        yield from _reasons(" ".join(rest), depth + 1)
    elif name in SHELLS:
        script = _script_of(rest)
        if script is not None:
            yield from _reasons(script, depth + 1)


def unwrapped(texts: Sequence[str]) -> list[str]:
    """The command that is really run: without assignments before it and without what only runs it."""
    words = list(texts)
    while words:
        if re.fullmatch(r"[A-Za-z_]\w*\+?=.*", words[0], re.DOTALL):
            words.pop(0)
            continue
        name = posixpath.basename(words[0])
        if name not in WRAPPERS:
            break
        own, words = WRAPPERS[name], words[1:]
        while words and (words[0].startswith("-") or own):
            option = words.pop(0)
            if not option.startswith("-"):
                own -= 1
            elif option in _WITH_VALUE and words and posixpath.basename(words[0]) not in ("rm", "dd", *SHELLS):
                words.pop(0)
    return words


def _script_of(arguments: Sequence[str]) -> str | None:
    """The script that `sh -c` is given."""
    for at, argument in enumerate(arguments):
        if re.fullmatch(r"-[abd-z]*+c[a-z]*", argument) and at + 1 < len(arguments):
            return arguments[at + 1]
    return None


def _is_recursive(arguments: Sequence[str]) -> bool:
    return any(
        one == "--recursive" or (one.startswith("-") and not one.startswith("--") and set("rR") & set(one))
        for one in arguments
    )


def _is_root(path: str, *, at_root: bool) -> bool:
    return _is_system(path) or (at_root and path in ("*", ".", "./*", "./", "..", ".*"))


def _is_system(path: str) -> bool:
    """The root of the system, one of its folders, or everything in one of these."""
    if not path.startswith("/"):
        return False
    ends = len(path.rstrip("/*.?"))
    slash = path.find("/", ends)
    bare = posixpath.normpath((path if slash < 0 else path[:slash]) or "/")
    bare = "/" if bare == "//" else bare
    return bare == "/" or bare in _SYSTEM


def _find_deletes(arguments: Sequence[str]) -> bool:
    return "-delete" in arguments or any(
        one in ("-exec", "-execdir", "-ok") and posixpath.basename(following) in ("rm", "shred", "unlink")
        for one, following in pairwise(arguments)
    )


def _plain(word: Word) -> str:
    return posixpath.normpath(word.text) if word.text else ""


# Read-only commands: a table of commands and options that change nothing, and its reader.

_NUMBER = re.compile(r"-\d[\w.]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a command. Letters in `valued` take the rest of their word, `whole` are words with one dash.

    `barred`: what else it must not be given anywhere. `free`: every word is text to it.
    """

    letters: str = ""
    valued: str = ""
    long: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    barred: re.Pattern[str] | None = None
    free: bool = False


def _options(letters: str = "", valued: str = "", long: str = "", whole: str = "", barred: str = "") -> Options:
    return Options(
        letters=letters,
        valued=valued,
        long=frozenset(long.split()),
        whole=frozenset(whole.split()),
        barred=re.compile(barred) if barred else None,
    )


_DIGITS = "0123456789"
_LIST = r"@"  # the rest of the word names a file with further options
_ENDS = _options(_DIGITS + "qvz", "cn", "bytes lines quiet silent verbose zero-terminated")
_GREP = _options(
    _DIGITS + "EFGPivywxcLlqsobHhnTaIrR", "efABCm",
    "extended-regexp fixed-strings perl-regexp basic-regexp regexp file ignore-case no-ignore-case invert-match "
    "word-regexp line-regexp count color colour files-with-matches files-without-match max-count only-matching quiet "
    "silent no-messages byte-offset with-filename no-filename line-number initial-tab null after-context "
    "before-context context text binary-files recursive include exclude exclude-dir",
)  # fmt: skip
_SUM = _options("btz", long="binary text tag zero")
_ANYTHING = Options(free=True)

# Commands that begin so only look.
LOOKING: Mapping[tuple[str, ...], Options] = {
    ("ls",): _options(
        "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1", "Iw",
        "all almost-all author block-size classify color directory dereference file-type full-time "
        "group-directories-first human-readable si hide hyperlink indicator-style inode ignore literal no-group "
        "numeric-uid-gid quote-name recursive reverse size sort time time-style width zero",
    ),
    ("cat",): _options(
        "AbeEnstTuv",
        long="show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting",
    ),
    ("head",): _ENDS,
    ("tail",): _ENDS,
    ("wc",): _options("clLmw", long="bytes chars lines words max-line-length total"),
    ("pwd",): _options("LP", long="logical physical"),
    ("whoami",): _options(),
    ("id",): _options("agGnruz", long="group groups name real user zero"),
    ("date",): _options(
        "uR", "Idr",
        "utc universal date iso-8601 rfc-3339 rfc-email reference",
        barred=r"\s*\d",  # sets it
    ),
    ("uname",): _options(
        "asnrvmpio",
        long="all kernel-name nodename kernel-release kernel-version machine operating-system",
    ),
    ("echo",): _ANYTHING,
    ("true",): _ANYTHING,
    ("false",): _ANYTHING,
    ("printf",): _options(),  # -v runs what stands in the index of its variable
    ("grep",): _GREP,
    ("egrep",): _GREP,
    ("fgrep",): _GREP,
    ("rg",): _options(
        _DIGITS + "acFHhiIlLnNoPpqsSuUvVwx", "egtTmABCMr",
        "regexp glob iglob type type-not type-list max-count after-context before-context context max-columns "
        "max-depth replace text count count-matches fixed-strings with-filename no-filename ignore-case "
        "files-with-matches files-without-match line-number no-line-number only-matching pcre2 pretty quiet "
        "smart-case case-sensitive hidden no-ignore no-ignore-vcs multiline multiline-dotall invert-match word-regexp "
        "line-regexp json files heading no-heading color stats sort sortr trim vimgrep column no-messages no-config "
        "unrestricted version",
    ),
    ("find",): _options(whole=(
        "-H -L -P -O1 -O2 -O3 -a -and -o -or -not -amin -anewer -atime -cmin -cnewer -ctime -daystart -depth -empty "
        "-executable -false -follow -fstype -gid -group -ilname -iname -inum -ipath -iregex -iwholename -links -lname "
        "-ls -maxdepth -mindepth -mmin -mount -mtime -name -newer -newerat -newerct -newermt -nogroup -noleaf -nouser "
        "-path -perm -print -print0 -printf -prune -quit -readable -regex -regextype -samefile -size -true -type -uid "
        "-used -user -wholename -writable -xdev -xtype"
    )),
    ("tree",): _options(  # a letter with a value takes the next word, and further letters may follow it
        _DIGITS + "adflxpsughDFqNQrtcUvnCASiXJLPI",
        long="dirsfirst filesfirst noreport filelimit gitignore prune matchdirs ignore-case sort du si charset "
        "timefmt inodes device metafirst",
    ),
    ("file",): _options(
        "bikLhnN0r", "F",
        "brief mime mime-type mime-encoding dereference no-dereference extension no-pad print0 raw separator",
    ),
    ("stat",): _options("Lft", "c", "dereference file-system terse format printf cached"),
    ("du",): _options(
        "aAbcDhHklLmPsSx0", "dBt",
        "all apparent-size block-size bytes total human-readable max-depth summarize separate-dirs one-file-system "
        "exclude threshold time time-style si null inodes",
    ),
    ("df",): _options(
        "ahHiklPT", "Btx",
        "all block-size human-readable si inodes local no-sync portability print-type type exclude-type total",
    ),
    ("which",): _options("as"),
    ("sort",): _options(
        "bdfgiMhnRrVcCmsuz", "kt",
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort ignore-nonprinting month-sort "
        "human-numeric-sort numeric-sort random-sort reverse sort version-sort check key merge stable field-separator "
        "unique zero-terminated debug",
    ),
    ("cut",): _options("nsz", "bcdf", "bytes characters delimiter fields complement only-delimited output-delimiter"),
    ("tr",): _options("cCdst", long="complement delete squeeze-repeats truncate-set1"),
    ("diff",): _options(
        _DIGITS + "abBcdeEiHnNpqrsTtuwyZ", "UCWxI",
        "unified context brief report-identical-files side-by-side width left-column suppress-common-lines recursive "
        "new-file exclude ignore-case ignore-tab-expansion ignore-trailing-space ignore-space-change ignore-all-space "
        "ignore-blank-lines ignore-matching-lines text strip-trailing-cr minimal color normal ed rcs expand-tabs "
        "initial-tab label no-dereference show-c-function",
    ),
    ("cmp",): _options("bls", "in", "print-bytes verbose quiet silent ignore-initial bytes"),
    ("comm",): _options("123z", long="check-order nocheck-order output-delimiter total zero-terminated"),
    ("nl",): _options("p", "bdfhilnsvw", "body-numbering number-format number-width number-separator line-increment"),
    ("od",): _options("abcdfilosvx", "AjNtw", "address-radix skip-bytes read-bytes format output-duplicates width"),
    ("strings",): _options(_DIGITS + "adfw", "nte", "all data print-file-name bytes radix encoding", barred=_LIST),
    ("jq",): _options(
        "nrRsSaCMcejh",
        long="null-input raw-output raw-input slurp sort-keys ascii-output color-output monochrome-output "
        "compact-output exit-status join-output tab indent arg argjson args jsonargs seq stream unbuffered",
        barred=r"(?s).*\b(?:import|include|modulemeta)\b",  # a program that reads further files
    ),
    ("md5sum",): _SUM,
    ("sha1sum",): _SUM,
    ("sha256sum",): _SUM,
    ("basename",): _options("az", "s", "multiple suffix zero"),
    ("dirname",): _options("z", long="zero"),
    ("realpath",): _options(
        "eLmPqsz",
        long="canonicalize-existing canonicalize-missing logical physical strip relative-to",
    ),
    ("readlink",): _options(
        "efmnqsvz",
        long="canonicalize canonicalize-existing canonicalize-missing no-newline verbose zero",
    ),
    ("seq",): _options(_DIGITS + "w", "fs", "format separator equal-width"),
    ("uptime",): _options("ps", long="pretty since"),
    ("nproc",): _options(long="all ignore"),
    ("column",): _options("txeJn", "csoNRTHO", "table table-columns separator output-separator json output-width"),
    ("fold",): _options(_DIGITS + "bs", "w", "bytes spaces width"),
    ("rev",): _options(),
    ("tac",): _options("br", "s", "before regex separator"),
}  # fmt: skip

_GIT = _options(
    _DIGITS + "abdeghiklmnpqrstuvwzBMR", "UnLSG",
    "oneline stat numstat shortstat name-only name-status graph decorate no-decorate all branches tags remotes follow "
    "author committer grep invert-grep since until after before max-count skip reverse merges no-merges first-parent "
    "format pretty abbrev-commit no-abbrev-commit abbrev date date-order topo-order relative-date patch no-patch raw "
    "cached staged porcelain short branch long show-stash ahead-behind untracked-files ignored word-diff color "
    "no-color no-renames find-renames find-copies unified function-context diff-filter summary compact-summary "
    "dirstat check minimal patience histogram ignore-all-space ignore-space-change ignore-space-at-eol "
    "ignore-blank-lines full-history left-right cherry-pick no-ext-diff no-textconv no-pager show-toplevel "
    "show-prefix show-cdup is-inside-work-tree symbolic symbolic-full-name abbrev-ref verify always dirty match "
    "exclude others modified deleted exclude-standard stage unmerged error-unmatch numbered email line-porcelain root "
    "quiet merge-base text submodule",
)  # fmt: skip
_NO_MORE = _options()
_GO = _options(whole="-v -x -n -json -e -f -m -deps -test -find -c -tags -race", barred=_LIST)
_CARGO = _options(
    "qvepirdj",
    long="quiet verbose release all workspace package exclude bin bins lib test tests example examples bench benches "
    "all-targets features all-features no-default-features message-format locked offline frozen keep-going "
    "profile edges invert depth prefix duplicates no-dedupe color",
)  # fmt: skip

# In these the files have a say (settings of a repository, rules of a makefile, plugins): they run what those ask for.
CHECKING: Mapping[tuple[str, ...], Options] = {
    **{
        ("git", one): _GIT
        for one in ("status", "log", "diff", "show", "blame", "ls-files", "rev-parse", "describe", "shortlog")
    },
    ("cargo", "check"): _CARGO,
    ("cargo", "tree"): _CARGO,
    ("go", "vet"): _GO,
    ("go", "list"): _GO,
    ("go", "version"): _GO,
    ("ruff", "check"): _options(
        "nqsve",
        long="select ignore extend-select extend-ignore per-file-ignores output-format statistics diff quiet verbose "
        "silent exit-zero line-length target-version no-cache preview no-preview show-fixes no-fix exclude "
        "extend-exclude",
        barred=_LIST,
    ),
    ("mypy",): _options(
        "vpm",
        long="strict verbose package module ignore-missing-imports no-error-summary pretty show-error-codes "
        "show-column-numbers show-error-context python-version platform namespace-packages "
        "explicit-package-bases no-incremental follow-imports check-untyped-defs disallow-untyped-defs "
        "disallow-untyped-calls disallow-any-generics warn-unused-ignores warn-redundant-casts warn-unreachable "
        "warn-return-any no-implicit-optional exclude scripts-are-modules version",
        barred=_LIST,
    ),
    ("python", "--version"): _NO_MORE,
    ("python3", "--version"): _NO_MORE,
    ("python", "-V"): _NO_MORE,
    ("python3", "-V"): _NO_MORE,
    ("node", "--version"): _NO_MORE,
    ("node", "-v"): _NO_MORE,
    ("npm", "--version"): _NO_MORE,
    ("tsc", "--noEmit"): _options(
        whole="-p -v",
        long="project strict pretty skipLibCheck version listFiles explainFiles target module jsx",
        barred=_LIST,
    ),
    ("make", "-n"): _options("nBiksw", "j", "dry-run just-print always-make keep-going silent", barred=r".*="),
    ("make", "--dry-run"): _options("nBiksw", "j", "dry-run just-print always-make keep-going silent", barred=r".*="),
}  # fmt: skip


def options_of(texts: Sequence[str], table: Mapping[tuple[str, ...], Options]) -> tuple[Options, Sequence[str]] | None:
    """Options of the command, and the words that are held to it; None: it is not in the table."""
    for length in (2, 1):
        if (found := table.get(tuple(texts[:length]))) is not None:
            return found, texts[length:]
    return None


def beyond(options: Options, words: Sequence[str]) -> str | None:
    """The first word with which the command would do more than look. After `--` too: it may be another's value."""
    if options.free:
        return None
    return next((word for word in words if not _is_known(word, options)), None)


def values_in(word: str, options: Options) -> Iterator[str]:
    """Values in an option's own word, for one may be a path."""
    if word.startswith("--"):
        yield word.partition("=")[2]
    elif word.startswith("-"):
        yield from (word[at + 1 :] for at, letter in enumerate(word) if letter in options.valued)


def _is_known(word: str, options: Options) -> bool:
    if options.barred is not None and options.barred.match(word):
        return False
    if not word.startswith("-") or word in ("-", "--"):
        return True
    if word.startswith("--"):
        return word[2:].partition("=")[0] in options.long
    if options.whole:
        return word in options.whole or _NUMBER.fullmatch(word) is not None
    for letter in word[1:]:
        if letter in options.valued:
            return True
        if letter not in options.letters:
            return False
    return True


# Verdict on a shell command: it runs, a person is asked, or it is refused. Pure.

# A file may be named like an option. With these no option does any harm; others get no names that nobody has read.
_TAME = frozenset({"ls", "cat", "head", "stat", "grep", "egrep", "fgrep", "echo", "basename", "dirname"})
_OUTSIDE = re.compile(r"^/|[=:,@]/|^-\w+/")  # an absolute path, also as the value of an option
_UPWARDS = re.compile(r"(?<![\w.])\.\.(?=/|$)|/\.\.(?![\w.])")


# Gravity of a command by its program, for the order in which a person reads: the lower the number, the graver.
HARM: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        **dict.fromkeys(("rm", "rmdir", "unlink", "shred"), (0, "deletes files")),
        **dict.fromkeys(("dd", "mkfs", "truncate"), (1, "overwrites data")),
        **dict.fromkeys(("kill", "pkill", "killall"), (2, "ends programs")),
        **dict.fromkeys(("chmod", "chown", "chgrp"), (3, "changes who may read or write")),
        **dict.fromkeys(("curl", "wget", "nc", "ssh", "scp", "rsync", "ftp"), (4, "reaches other machines")),
        **dict.fromkeys(
            ("pip", "pip3", "npm", "apt", "apt-get", "cargo", "gem"), (5, "installs or runs other people's programs")
        ),
        **dict.fromkeys(("mv", "ln"), (6, "moves or replaces files")),
    }
)
_BEFORE = frozenset(
    {"env", "nice", "nohup", "time", "command", "exec", "sudo", "xargs"}
)  # what they run comes behind them
LONGEST_PART = 120  # characters of the part that is shown


@dataclass(frozen=True, slots=True)
class Judgement:
    """`reason` is a person's when the gate asks, the model's when it denies."""

    gate: Gate
    reason: str = ""


def judged(command: str, *, sandboxed: bool, root: str = ROOT) -> Judgement:
    """The verdict on the command, by its words alone. `root`: the workspace's path as commands see it; "": none is."""
    if why := denied(command):
        return Judgement("deny", f"this command never runs here: {why}")
    if odd := next((sign for sign in command if _is_odd(sign)), None):
        return Judgement("ask", f"it holds a character that may mislead (U+{ord(odd):04X})")
    try:
        reading = read(command)
    except Unreadable as error:
        return Judgement("ask", f"it cannot be read: {error}")
    worst = _worst(reading)
    if reading.operators:
        uses = f"it uses {' '.join(sorted(map(repr, reading.operators)))}"
        return Judgement("ask", f"{worst}; {uses}" if worst else uses)
    if worst:
        return Judgement("ask", worst)
    if len(reading.commands) != 1:
        return Judgement("ask", "it holds no command" if not reading.commands else "it holds several commands")
    return _of_words(reading.commands[0], sandboxed=sandboxed, root=root)


def only_removes(command: str) -> bool:
    """Whether all that the command does is `rm`: nothing else runs, and nothing is written anywhere."""
    try:
        reading = read(command)
    except Unreadable:
        return False
    if reading.targets or reading.inner or not reading.operators <= {"&&", ";", "\n"}:
        return False
    return bool(reading.commands) and all(words and words[0].text == "rm" for words in reading.commands)


def _worst(reading: Reading) -> str:
    """The most harmful part of it, in a person's words and with its own; "" where nothing known does any."""
    found = []
    for words in reading.commands:
        texts = [word.text for word in words]
        while texts and (texts[0].rpartition("/")[2] in _BEFORE or texts[0].startswith("-")):
            texts = texts[1:]
        if texts and (harm := HARM.get(texts[0].rpartition("/")[2])):
            found.append((harm, " ".join(texts)))
    if not found:
        return ""
    (_, does), part = min(found)
    return f"it {does}: {part if len(part) <= LONGEST_PART else part[: LONGEST_PART - 1] + '…'}"


def _of_words(words: Sequence[Word], *, sandboxed: bool, root: str) -> Judgement:
    texts = tuple(word.text for word in words)
    known = options_of(texts, LOOKING) or (options_of(texts, CHECKING) if sandboxed else None)
    if known is None:
        return Judgement("ask", f"{texts[0]} is not among the commands that only look")
    options, rest = known
    for word in words:
        if word.expands or _hides(word) or (not sandboxed and 0 in word.globs and texts[0] not in _TAME):
            return Judgement("ask", f"{word.text or 'a word'} stands for something else that only the shell knows")
        if any(_leaves(text, root) for text in (word.text, *values_in(word.text, options))):
            return Judgement("ask", f"{word.text} is not in the workspace")
    if found := beyond(options, rest):
        return Judgement("ask", f"{texts[0]} may do more than look with {found}")
    return Judgement("allow")


def _hides(word: Word) -> bool:
    """Whether names of files may make it `..` (some shells take `.[.]` for it, and `.*`), or the value of an option."""
    starts = (word.text.rfind("/", 0, at) + 1 for at in word.globs)
    hidden = any(word.text.startswith(".", start) for start in starts)
    return hidden or (bool(word.globs) and word.text.startswith("-") and "/" in word.text)


def _leaves(text: str, root: str) -> bool:
    within = bool(root) and any(text == one or text.startswith(f"{one}/") for one in (root, SKILLS))
    return _UPWARDS.search(text) is not None or (not within and _OUTSIDE.search(text) is not None)


def _is_odd(sign: str) -> bool:
    """Whether a person may take the character for another, or not see it; letters of any language are none."""
    if sign.isascii():
        return not (sign.isprintable() or sign in "\n\t")  # \r is no blank to a shell
    return not sign.isprintable() or sign.isspace() or not sign.isalnum()

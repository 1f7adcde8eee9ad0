"""Which commands only look, and the options with which that stays so (SPEC §12.3): a table, and the way to read it.

What is not in it is asked for: a command that learns a new option tomorrow, and an option cut short (`--outp`), too.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_NUMBER = re.compile(r"-\d[\w.]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a command may be given. Letters in `valued` take the rest of their word, `whole` are words with one dash.

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
    """What the command may be given, and the words that are held to it; None: it is not in the table."""
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
    """What stands in an option's own word and is its value, for it may be a path."""
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

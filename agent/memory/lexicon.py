"""Index words: stems without stop words, and pairs of characters in scripts without blanks.

The same words go into the index of either database, so that both find the same (docs/memory-recall.md). Snowball makes
the stems. A word costs some 30 µs the first time; a `Lexicon` remembers what it has made.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module

from agent.memory.records import LONGEST_SAID, Kept

MOST_KEPT = 300  # words of one thing
MOST_ASKED = 24  # of a question
LONGEST = 40  # letters of a word
REMEMBERED = 20_000  # stems, before all are made anew
ENGLISH = "english"

_WORD = re.compile(r"[^\W_]+")
# Scripts that put no blanks between words, and Korean, which glues endings to them: pairs of signs are the words.
_HAN, _HIRAGANA, _KATAKANA = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff々", "\u3041-\u309f", "\u30a0-\u30ff"
_OTHERS = "\u0e00-\u0eff\u1780-\u17ff\u1000-\u109f\uac00-\ud7af"
_RUN = re.compile(f"[{_HAN}]+|[{_HIRAGANA}]+|[{_KATAKANA}]+|[{_OTHERS}]+|[^{_HAN}{_HIRAGANA}{_KATAKANA}{_OTHERS}]+")
_UNSPACED = re.compile(f"[{_HAN}{_HIRAGANA}{_KATAKANA}{_OTHERS}]")
_CYRILLIC, _GREEK = re.compile("[\u0400-\u04ff]"), re.compile("[\u0370-\u03ff]")

# Words that tell nothing, by language; a text is taken to be of the language most of whose stop words it holds.
STOP_WORDS: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "english": """
            a about above actually after again ain all almost already alright also always am an and another any
            anybody anyone anything anyway are aren as at be because been before being below between both but by bye
            came can cannot come could couldn d did didn do does doesn doing don done down during each either else
            even ever every everybody everyone everything few for from further get gets getting give go goes going
            gone gonna good got great guess guys had hadn has hasn have haven having he hello her here hers herself
            hey hi him himself his how however i if in into is isn it its itself just kind know least less let like ll
            lot m many may maybe me mean might mine more most much must my myself need no nobody nope nor not nothing
            now of off oh ok okay on once one only or other others our ours ourselves out over own people please
            pretty probably put quite re really right s said same say says see seem seems she should shouldn since so
            some somebody someone something sometimes soon still such sure t take tell than thank thanks that the
            their theirs them themselves then there these they thing things think this those though through to told
            too took two under until up us use used ve very want wanted was wasn way we well went were weren what when
            where which while who whom whose why will with without won would wouldn yeah yep yes yet you your yours
            yourself""",
        "german": """
            aber alle allem allen aller alles als also am an andere anderen auch auf aus außerdem bei beim bin bis
            bist bitte brauchen braucht da dabei dafür damals damit danach danke dann daran darauf das dass davon dazu
            dein deine deinem deinen deiner dem den denen denn der deren des dessen dich die dies diese diesem diesen
            dieser dieses dir doch dort du durch eben eigentlich ein eine einem einen einer eines einfach er es etwas
            euch euer eure für ganz gar geht gehen gemacht genau gerade gesagt gibt ging gut gute guten habe haben hab
            halt hallo hast hat hatte hatten hätte heißt her hier hin ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im
            immer in indem ins irgendwie ist ja je jede jedem jeden jeder jedes jemand jetzt kam kann kannst kein
            keine keinen keiner klar komme kommen kommt können könnte lange lassen leider lieber mach mache machen
            macht mal man mehr mein meine meinem meinen meiner mich mir mit morgen muss müssen nach naja nein nicht
            nichts nie niemand noch nun nur ob oder ohne ok okay schon sehr sein seine seinem seinen seiner seit
            selbst sich sie sind so sogar soll sollen sollte sondern sonst super tun über um und uns unser unsere
            unserem unseren unter viel vielleicht vom von vor während war waren warum was wegen weil welche welchem
            welchen welcher welches wem wen wenn wer werde werden wessen wie wieder wieso will wir wird wirklich wo
            wohl wohin wollen wollte worden wurde wurden würde zu zum zur zwar zwischen""",
        "french": """
            ai aie as au aux avait avec avoir avons avez bien bon c ça car ce cela ces cet cette chez comme comment d
            dans de des dire dit donc du elle elles en encore es est et été être eu eux faire fait fois ici il ils j
            je jour juste l la là le les leur leurs lui m ma mais me même mes moi mon n ne non nos notre nous on ont
            ou où oui par parce pas peu peut plus pour pourquoi qu quand que quel quelle quelles quels qui quoi s sa
            sais sans se sera ses si son sont suis sur t ta te tes toi ton tous tout toute toutes très tu un une va
            vas vos votre vous vraiment y""",
        "spanish": """
            a al algo alguien aquí así aunque bien como cómo con cual cuál cuando cuándo de del desde donde dónde dos
            e el él ella ellas ellos en entonces era eran es esa esas ese eso esos esta está están estar este esto
            estos estoy fue ha había hace hacer han hasta hay he la las le les lo los más me mi mis muy nada ni no nos
            nosotros nuestra nuestro o otra otro para pero poco por porque pues que qué quien quién se sea ser si sí
            sin sobre solo son soy su sus también tan te tener tiene tienes todo todos tu tú tus un una uno unos va
            vamos y ya yo""",
        "italian": """
            a ad ai al alla alle allo anche ancora avere c che chi ci come con cosa così cui da dal dalla dei del
            della delle di dobbiamo dove e è ed era essere fa fatto fare gli ha hai hanno ho i il in io l la le lei li
            lo loro lui ma mi mia mio molto ne nel nella no noi non nostro o ogni per perché più poi proprio qual
            quale quando quanto quello questa questo qui se sei si sì sia sono su sua sul suo ti tra tu tua tuo tutti
            tutto un una uno va vi voi""",
        "portuguese": """
            a ao aos aqui as até com como da das de dela dele depois do dos e é ela elas ele eles em então era essa
            esse esta está estão este eu foi há isso isto já lá lhe mais mas me meu meus minha muito na nada não nas
            nem no nos nós nossa nosso num numa o onde os ou para pela pelo por porque pra qual quando quanto que quem
            se sem ser seu seus só sua suas também tão te tem tenho ter teu tinha todos tu tua tudo um uma vai você
            vocês vou""",
        "dutch": """
            aan al alles als altijd ben bij daar dan dat de der deze die dit doen dus een en er ga gaan gaat geen goed
            had heb hebben heeft hem het hier hij hoe hun iets ik in is ja je jij jou jouw kan kon maar me meer men
            met mij mijn moet na naar nee niet niets nog nu of om omdat onder ons onze ook op over te toch toen tot u
            uit van veel voor waar waarom was wat we weer wel welke werd wie wij wil worden wordt zal ze zei zich zij
            zijn zo zonder zou""",
        "russian": """
            а без более больше будет будто будут бы был была были было быть в вам вас вдруг ведь во вот впрочем все
            всё всегда всего всех всю вы где да даже два для до другой его ее её ей ему если есть еще ещё ж же за
            зачем здесь и из или им иногда их к как какая какие какой какого какую когда конечно кого которая которое
            которые который кто куда ли лучше между меня мне много может можно мой моя мы на над надо наконец нас не
            него нее неё ней нельзя нет ни нибудь никогда ним них ничего но ну о об один он она они опять от очень
            перед по под после потом потому почему почти при про просто пусть раз разве с сам свой своей свою своих
            своего себе себя сегодня сейчас сказал сказала сколько со совсем так такой такая такие там тебе тебя тем
            теперь то тогда того тоже только том тот тут ты у уж уже хорошо хоть хочу чего чей чем через что чтобы
            чтоб чуть эта эти это этого этой этом этот эту я давай ладно ага спасибо привет""",
    }.items()
}
_UMLAUT = re.compile("[äöüß]")
_LATIN = tuple(language for language in STOP_WORDS if language != "russian")
_BENDING = (ENGLISH, "german")  # languages that put endings to names
# Words of a question that ask for something to be done: they say nothing of what it is about.
REQUESTS = frozenset(
    _WORD.findall(
        """
        explain write describe summarise summarize translate convert recommend suggest draft list show name called
        remind mention mentioned happen happened
        erkläre erklär erklären schreibe schreib beschreibe übersetze rechne empfiehl empfehle nenne fasse entwirf
        erzähle erzähl zeige zeig heißen passiert
        напиши объясни опиши переведи посоветуй составь подбери перескажи расскажи назови покажи зовут называется
        explique écris décris traduis résume propose montre explica escribe describe traduce resume recomienda muestra
        spiega scrivi descrivi traduci consiglia explique escreva descreva traduza recomende leg schrijf vertaal
        解释 说明 推荐 介绍 描述 翻译 写一 给我 告诉 讲一 叫什
        説明 教え えて 書い いて 紹介 翻訳 要約
        """
    )
)
# Pairs of hiragana that only join and bend words, and pairs that ask or join in Chinese.
_JOINING = frozenset(
    _WORD.findall(
        """
        うで よか です ます まし した して いる って った ない から ので のは のが のを には では
        とは ても だけ まで より けど ども こと もの する され れる られ せる てい でき
        ある あり いた いて たの だっ そう よう よね かな ねえ うん はい いま たい くて
        くだ ださ さい ませ せん てる てた どう んで んだ ょう しょ でし いう とい なん
        なに どこ いつ どの どん だれ その この あの それ これ あれ たし るの いの なの
        うか すか たか るよ たよ だよ いよ らい なら ため など ちょ っと もう また まだ
        とて たら れば ろう えば かっ いん 什么 怎么 哪里 哪个 哪天 哪些 多少 几点 谁的
        是谁 我们 你们 他们 她们 这个 那个 这里 那里 这样 那样 一下 一个 可以 没有 不是
        就是 还是 但是 因为 所以 如果 已经 现在 知道 觉得 的话 是不 不能 为什 么时 时候
        是什 的是 了吗 的时 好的 谢谢
        """
    )
)
_ALONE = frozenset("何誰的了吗呢吧啊是在我你他她们这那有不也就都和与很还要会能去来说个上下一人么嘛哦")


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One word of a question, in every form in which the index may have it."""

    word: str
    forms: tuple[str, ...]

    @property
    def is_pair(self) -> bool:
        """Whether it is a pair of signs, which may be the end of one word and the beginning of the next."""
        return _UNSPACED.match(self.word) is not None


class Lexicon:
    """Makes words of texts. Any thread may ask."""

    def __init__(self) -> None:
        self._stems: dict[tuple[str, str], str] = {}
        self._names: dict[str, frozenset[str]] = {}

    def words(self, text: str, speaker: str = "") -> tuple[str, ...]:
        """The words by which a text is found, each once, the names of who says it among them."""
        found: dict[str, None] = dict.fromkeys(self.names(speaker))
        every = list(pieces(text))
        language = language_of(every)
        for word in every:
            if not is_stop(word, language):
                found[self._form(word, language)] = None
            if len(found) >= MOST_KEPT:
                break
        found.pop("", None)
        return tuple(found)

    def names(self, speaker: str) -> frozenset[str]:
        """The words that a question has where it names them."""
        known = self._names.get(speaker)
        if known is None:
            if len(self._names) >= REMEMBERED:
                self._names.clear()
            words = list(pieces(speaker))
            bent = {self._form(word, language) for word in words for language in (*_BENDING, language_of(words))}
            known = self._names[speaker] = frozenset(filter(None, bent | set(map(plain, words))))
        return known

    def forms(self, word: str, languages: Iterable[str]) -> tuple[str, ...]:
        """A word as each of these languages has it, and bare."""
        found = dict.fromkeys(self._form(word, language) for language in languages)
        found[plain(word)] = None
        found.pop("", None)
        return tuple(found)

    def terms(self, question: str) -> tuple[Term, ...]:
        """The subject words of a question, in order; all of its words where there would be none."""
        every = list(dict.fromkeys(pieces(question)))
        language = language_of(every)
        telling = [word for word in every if not is_stop(word, language)] or every
        telling = [word for word in telling if word not in REQUESTS] or telling
        terms: dict[tuple[str, ...], Term] = {}
        for word in telling:
            forms = tuple(dict.fromkeys(filter(None, self._forms(word, language))))
            if forms:
                terms.setdefault(forms, Term(word=word, forms=forms))
        return tuple(terms.values())[:MOST_ASKED]

    def _forms(self, word: str, language: str) -> Iterator[str]:
        """The stems of a word by the question's language and English (as short messages are read), then the word."""
        yield self._form(word, language)
        yield self._form(word, ENGLISH)
        yield plain(word)

    def _form(self, word: str, language: str) -> str:
        """The stem; numbers, and words in scripts without blanks, are left as they are."""
        if not word.isalpha() or _UNSPACED.match(word):
            return plain(word)
        known = self._stems.get((language, word))
        if known is None:
            if len(self._stems) >= REMEMBERED:
                self._stems.clear()
            # One for each word: a stemmer keeps the word it works at, and threads share the lexicon.
            known = plain(import_module("snowballstemmer").stemmer(language).stemWord(word))
            self._stems[language, word] = known
        return known


def language_of(words: Iterable[str]) -> str:
    """The language whose stop words are the most of these; German by its letters, else English where none is."""
    some = list(words)
    for word in some:
        if not word.isascii():
            if _CYRILLIC.match(word):
                return "russian"
            if _GREEK.match(word):
                return "greek"
    counts = {language: sum(map(STOP_WORDS[language].__contains__, some)) for language in _LATIN}
    best = max(counts, key=lambda language: counts[language])  # the first of equals: English
    return "german" if not counts[best] and any(map(_UMLAUT.search, some)) else best


def plain(word: str) -> str:
    """Without accents, no longer than an index takes."""
    if not word.isascii() and not _UNSPACED.match(word):
        word = "".join(sign for sign in unicodedata.normalize("NFKD", word) if not unicodedata.combining(sign))
    return word[:LONGEST]


def pieces(text: str) -> Iterator[str]:
    """The words of a text in lower case; pairs of signs where there are no blanks."""
    if text.isascii():
        yield from _WORD.findall(text.lower())
        return
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).lower()):
        if not _UNSPACED.search(word):
            yield word
            continue
        for run in _RUN.findall(word):
            if not _UNSPACED.match(run):
                yield run
            elif len(run) == 1:
                if not _HIRAGANA[0] <= run <= _HIRAGANA[-1]:
                    yield run
            else:
                yield from (run[at : at + 2] for at in range(len(run) - 1))


def is_stop(word: str, language: str) -> bool:
    """Whether the word tells nothing in that language."""
    if _UNSPACED.match(word):
        return word in _JOINING or (len(word) == 1 and word in _ALONE)
    if len(word) == 1 and not word.isdigit():
        return True
    return word in STOP_WORDS.get(language, ())


# Telling words of a text, and its pieces. Pure.

MOST_WORDS = 24  # of a query
_ENDINGS = ("ing", "ed", "es", "en", "em", "s", "n", "e")  # the longest first
# Signs that make another thing of a word: C++, -18, $5. Not the marks between sentences and within words.
_SIGNED = re.compile(r"[^\W_]+|(?<!\w)-(?=\w)|[^\w\s.,;:!?'\"()\[\]{}…–—„“”‚‘’«»`*-]")
# Where a fence is never closed, none behind it is either: the second form takes the rest, so that nobody looks again.
_FENCE = re.compile(r"^(?:```|~~~)[^\n]*+\n(?:(.*?)^(?:```|~~~)\s*$|.*+)", re.MULTILINE | re.DOTALL)

# Words that nearly every message holds; English and German.
STOP = frozenset(
    _WORD.findall(
        """
        hello hi hey morning evening night bye good great nice cool fine sure well maybe
        hallo moin servus danke tschüss guten morgen abend nacht gut super schön klar vielleicht
        a about after all also am an and any are as at be because been before but by can cannot could did do does
        doing done don down during each few for from further get give go got had has have having he her here hers
        him his how i if in into is it its itself just know let like ll me more most my myself no nor not now of off
        ok okay on once only or other our ours out over own please re s same say said says she should so some still
        such t tell than thank thanks that the their theirs them then there these they this those through to too
        under until up us ve very was we were what when where which while who whom whose why will with would yes you
        your yours aber als am an auch auf aus bei bin bist bitte da dann das dass dein deine dem den der des dich
        die dir doch du ein eine einem einen einer eines er es euch euer für hab habe haben hast hat hatte ich ihm
        ihn ihr ihre im in ist ja jetzt kann kannst man mein meine meinem meinen meiner mich mir mit nach nein nicht
        noch nun nur oder schon sein seine sich sie sind so über um und uns unser von vor war waren warum was weil
        welche welcher welches wenn wer wie wieder wir wird wo zu zum zur
        """
    )
)


def words_of(text: str) -> tuple[str, ...]:
    """Every word, in lower case, in order."""
    return tuple(_WORD.findall(text.lower()))


def signed_words_of(text: str) -> tuple[str, ...]:
    """The same with the signs that make another thing of a word."""
    return tuple(_SIGNED.findall(text.lower()))


def telling(text: str) -> tuple[str, ...]:
    """The words that say what it is about, each once; all of them where that would leave nothing."""
    every = tuple(dict.fromkeys(words_of(text)))
    return tuple(word for word in every if word not in STOP)[:MOST_WORDS] or every[:MOST_WORDS]


def is_about_something(text: str) -> bool:
    """Whether it holds a word that a memory can be asked for; a greeting does not."""
    return any(len(word) > 2 and word not in STOP for word in words_of(text))


def coverage(words: Sequence[str], text: str) -> float:
    """The share (0..1) of `words` that stand in the text, in whatever form."""
    if not words:
        return 0.0
    stems = {stem(word) for word in words_of(text)}
    return sum(stem(word) in stems for word in words) / len(words)


def stem(word: str) -> str:
    """The word without the ending of a plural, a case or a tense, in English and German; roughly."""
    if not word.endswith(_ENDINGS) or any(map(str.isdigit, word)):
        return word
    ending = next((one for one in _ENDINGS if word.endswith(one) and len(word) - len(one) >= 3), "")
    return word.removesuffix(ending)


def code_in(text: str) -> tuple[str, ...]:
    """The fenced blocks of a text."""
    return tuple(found.strip("\n") for found in _FENCE.findall(text) if found.strip())


def without_code(text: str) -> str:
    """The text with an ellipsis in place of each fenced block."""
    if "```" not in text and "~~~" not in text:
        return text
    return _FENCE.sub(lambda fence: fence[0] if fence[1] is None else "…", text)


def text_pieces(text: str, longest: int) -> tuple[str, ...]:
    """The text in pieces of at most so many characters, cut at the end of a line, a sentence or a word."""
    found = []
    text, at = text.strip(), 0
    while len(text) - at > longest:
        cut = max(text.rfind(mark, at + longest // 2, at + longest) for mark in ("\n", ". ", " "))
        cut = cut + 1 if cut > at else at + longest
        found.append(text[at:cut].strip())
        at = cut
        while text[at].isspace():  # the text ends with something else
            at += 1
    return tuple(piece for piece in (*found, text[at:]) if piece)


# Parts of a message that are worth keeping: its words in pieces, its code apart, no greetings. Pure.


def kept_of(
    text: str,
    *,
    person: str | None,
    speaker: str,
    session: str | None,
    message_id: int | None,
    inbox_id: int | None,
) -> tuple[Kept, ...]:
    """The things to keep of one message; `person` None: the agent said it."""
    said = [piece for piece in text_pieces(without_code(text), LONGEST_SAID) if is_about_something(piece)]
    code = [block[:LONGEST_SAID] for block in code_in(text)]
    return tuple(
        Kept(
            kind="said" if number < len(said) else "code",
            text=part,
            source="chat",
            person=person,
            speaker=speaker,
            session=session,
            message_id=message_id,
            inbox_id=inbox_id,
            piece=number,
        )
        for number, part in enumerate((*said, *code))
    )

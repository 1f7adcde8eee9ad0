"""The sentences delivery itself says to people, for the catalogue. Never holds anything a model or platform said."""

from collections.abc import Mapping
from types import MappingProxyType

ENGLISH: Mapping[str, str] = MappingProxyType(
    {
        "repeat": "(This may be a repeat: the connection broke off while I was sending it.)",
        "undelivered": "I could not deliver an answer here. The operator can find it.",
        "file_missing": "(The file “{name}” could not be attached: it is no longer there.)",
        "file_too_large": "(The file “{name}” could not be attached: it is larger than this platform takes.)",
        "question_yes": "Yes",
        "question_no": "No",
        "question_expired": "→ no answer in time, so: no",
        "question_over": "This question is no longer open.",
        "question_not_yours": "Only the person who was asked can answer this.",
        "question_type": "Answer with {choices}.",
        "status_tool": "🔧 {tool}",
        "status_retry": "The model service is not answering; trying again ({attempt})…",
        "status_queued": "Queued: {count}",
        "status_degraded": "Preparing took long; going on with what I have.",
        "status_switched": "Now using {provider} ({model})",
        "status_decided": "{provider} · {model} · {seconds} s",
        "status_usage": "{prompt} tokens in, {output} out",
        "status_failed_tool": "🔧 {tool} failed",
    }
)

GERMAN: Mapping[str, str] = MappingProxyType(
    {
        "repeat": "(Vielleicht doppelt: Beim Senden ist die Verbindung abgebrochen.)",
        "undelivered": "Eine Antwort ließ sich hier nicht zustellen. Der Betreiber kann sie finden.",
        "file_missing": "(Die Datei „{name}“ konnte nicht angehängt werden: Es gibt sie nicht mehr.)",
        "file_too_large": "(Die Datei „{name}“ konnte nicht angehängt werden: Sie ist zu groß für diese Plattform.)",
        "question_yes": "Ja",
        "question_no": "Nein",
        "question_expired": "→ keine rechtzeitige Antwort, also: nein",
        "question_over": "Diese Frage ist nicht mehr offen.",
        "question_not_yours": "Das kann nur die gefragte Person beantworten.",
        "question_type": "Antworte mit {choices}.",
        "status_tool": "🔧 {tool}",
        "status_retry": "Der Modelldienst antwortet nicht; neuer Versuch ({attempt})…",
        "status_queued": "In der Warteschlange: {count}",
        "status_degraded": "Die Vorbereitung dauert; weiter mit dem, was da ist.",
        "status_switched": "Jetzt mit {provider} ({model})",
        "status_decided": "{provider} · {model} · {seconds} s",
        "status_usage": "{prompt} Token hinein, {output} heraus",
        "status_failed_tool": "🔧 {tool} ist fehlgeschlagen",
    }
)

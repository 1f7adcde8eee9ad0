"""Parts of a message in OpenAI's form: texts, and files that came along as data URLs. Pure.

Fields: platform.openai.com/docs/guides/images-vision, …/pdf-files and …/audio. The bytes must be what the request says
that they are. Nothing is fetched: an address that a program names may be one that the gateway alone reaches.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.core.untrusted_text import one_line
from gateway.api.refusals import BadRequest
from gateway.api.uploads import SentFile
from gateway.channels.media import picture_type, safe_name, sound_type
from gateway.router.attachments import MEGABYTE, MOST_FILES
from gateway.router.messages import LONGEST_NAME

TEXT_PARTS = ("text", "input_text", "output_text")
PICTURE_PARTS = ("image_url", "input_image")
FILE_PARTS = ("file", "input_file")
SOUND_PART = "input_audio"
SOUNDS = {"wav": "audio/wav", "mp3": "audio/mpeg"}
LONGEST_TYPE = 100  # characters of a MIME type
BEGINNING = 1024  # bytes in which the mark of a PDF file must stand (ISO 32000-1, annex H.3.4.1)

_TYPE_SIGNS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.+-_/")
_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
_ALIASES = {"image/jpg": "image/jpeg", "audio/x-wav": "audio/wav", "audio/wave": "audio/wav", "audio/mp3": "audio/mpeg"}
# Types that their bytes tell; of any other type the request is believed, as a platform is.
_TOLD_BY_BYTES = frozenset((*_ENDINGS, "audio/ogg", "audio/mpeg", "audio/flac", "audio/aac", "audio/wav"))
_ELSEWHERE = "the gateway fetches nothing for others; send the bytes along as a data URL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most that one file may have, in mebibytes, and whether sounds are written down here."""

    file_mb: int
    hears: bool


@dataclass(frozen=True, slots=True)
class Content:
    """The texts of a message, one below the other, and its files."""

    text: str
    files: tuple[SentFile, ...] = ()


def content_of(content: Any, where: str, limits: Limits, *, may_have_files: bool) -> Content:
    """Read what a message says. Raises BadRequest."""
    if isinstance(content, str):
        return Content(content)
    if not isinstance(content, list):
        raise BadRequest(f"{where}: give a text or a list of parts", param=where)
    texts, files = list[str](), list[SentFile]()
    for place, part in enumerate(content):
        at = f"{where}[{place}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in TEXT_PARTS:
            texts.append(text_of(part.get("text"), f"{at}.text"))
        elif not isinstance(kind, str) or kind not in (*PICTURE_PARTS, *FILE_PARTS, SOUND_PART):
            raise _unsupported(f"{at}.type", "only texts, pictures and files are taken")
        elif not may_have_files:
            raise _unsupported(f"{at}.type", "pictures and files are taken in a user's messages alone")
        elif len(files) == MOST_FILES:
            raise BadRequest(
                f"{where}: at most {MOST_FILES} files go with a message", param=where, code="too_many_files"
            )
        else:
            files.append(_file(part, kind, at, limits, number=len(files) + 1))
    return Content("\n".join(texts), tuple(files))


def text_of(value: Any, where: str) -> str:
    """The value, if it is a text. Raises BadRequest."""
    if not isinstance(value, str):
        raise BadRequest(f"{where}: must be a text", param=where)
    return value


def _file(part: Mapping[str, Any], kind: str, at: str, limits: Limits, *, number: int) -> SentFile:
    match kind:
        case "image_url":
            _known(part, ("type", "image_url"), at)
            given = part.get("image_url")
            if not isinstance(given, dict):
                raise BadRequest(f"{at}.image_url: must be an object with a url", param=f"{at}.image_url")
            _known(given, ("url", "detail"), f"{at}.image_url")
            return _picture(given.get("url"), given.get("detail"), f"{at}.image_url.url", limits, number)
        case "input_image":
            _known(part, ("type", "image_url", "detail", "file_id"), at)
            _not_stored(part, at)
            return _picture(part.get("image_url"), part.get("detail"), f"{at}.image_url", limits, number)
        case "file":
            _known(part, ("type", "file"), at)
            given = part.get("file")
            if not isinstance(given, dict):
                raise BadRequest(f"{at}.file: must be an object with filename and file_data", param=f"{at}.file")
            _known(given, ("filename", "file_data", "file_id"), f"{at}.file")
            return _any_file(given, f"{at}.file", limits, number)
        case "input_file":
            _known(part, ("type", "filename", "file_data", "file_id", "file_url", "detail"), at)
            if part.get("file_url") is not None:
                raise _unsupported(f"{at}.file_url", _ELSEWHERE)
            _usual_detail(part.get("detail"), at)
            return _any_file(part, at, limits, number)
    return _sound(part, at, limits, number)


def _picture(url: Any, detail: Any, at: str, limits: Limits, number: int) -> SentFile:
    _usual_detail(detail, at)
    told, data = _data_url(url, at, limits)
    found = picture_type(data[:16])
    if found is None:
        raise BadRequest(f"{at}: the bytes are no PNG, JPEG, GIF or WebP picture", param=at, code="invalid_image")
    _same(told, found, at)
    return SentFile(name=f"picture-{number}.{_ENDINGS[found]}", mime_type=found, data=data)


def _any_file(given: Mapping[str, Any], at: str, limits: Limits, number: int) -> SentFile:
    _not_stored(given, at)
    name = given.get("filename")
    if name is not None and not isinstance(name, str):
        raise BadRequest(f"{at}.filename: must be a text", param=f"{at}.filename")
    at = f"{at}.file_data"
    told, data = _data_url(given.get("file_data"), at, limits)
    found = picture_type(data[:16]) or sound_type(data[:16])
    if found is not None or told in _TOLD_BY_BYTES:
        _same(told, found, at)
    if told.startswith("audio/") and not limits.hears:
        raise _unsupported(at, "sounds are not taken; nothing here writes them down")
    if told == "application/pdf" and b"%PDF-" not in data[:BEGINNING]:
        _same(told, None, at)
    return SentFile(name=_named(name, number), mime_type=told, data=data)


def _sound(part: Mapping[str, Any], at: str, limits: Limits, number: int) -> SentFile:
    """chat/create: `input_audio` has the bytes without a data URL, and `format`."""
    _known(part, ("type", "input_audio"), at)
    if not limits.hears:
        raise _unsupported(f"{at}.type", "sounds are not taken; nothing here writes them down")
    given = part.get("input_audio")
    if not isinstance(given, dict) or given.get("format") not in SOUNDS:
        raise BadRequest(f"{at}.input_audio: give data, and wav or mp3 as its format", param=f"{at}.input_audio")
    _known(given, ("data", "format"), f"{at}.input_audio")
    told, at = SOUNDS[given["format"]], f"{at}.input_audio.data"
    data = _bytes(given.get("data"), at, limits)
    _same(told, sound_type(data[:16]), at)
    return SentFile(name=f"sound-{number}.{given['format']}", mime_type=told, data=data)


def _data_url(url: Any, at: str, limits: Limits) -> tuple[str, bytes]:
    """MIME type and bytes of a data URL in base64 (RFC 2397)."""
    if not isinstance(url, str):
        raise BadRequest(f"{at}: must be a data URL", param=at)
    head, _, encoded = url.partition(",")
    scheme, _, described = head[: LONGEST_TYPE * 2].partition(":")
    if scheme.lower() != "data":
        raise _unsupported(at, _ELSEWHERE)
    told, *parameters = described.lower().split(";")
    told = _ALIASES.get(told, told)
    is_type = len(told) <= LONGEST_TYPE and told.count("/") == 1 and told[:1] != "/" and told[-1:] != "/"
    if not is_type or not _TYPE_SIGNS.issuperset(told) or parameters[-1:] != ["base64"]:
        raise BadRequest(f"{at}: write it as data:<type>/<subtype>;base64,<bytes>", param=at, code="invalid_data_url")
    return told, _bytes(encoded, at, limits)


def _bytes(encoded: Any, at: str, limits: Limits) -> bytes:
    if not isinstance(encoded, str):
        raise BadRequest(f"{at}: must be a text in base64", param=at, code="invalid_base64")
    most = limits.file_mb * MEGABYTE
    too_large = BadRequest(f"{at}: a file may have {limits.file_mb} MB", param=at, code="file_too_large", status=413)
    if len(encoded) * 3 // 4 - 2 > most:  # two signs at its end may be padding
        raise too_large
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRequest(f"{at}: is no base64: {error}", param=at, code="invalid_base64") from None
    if len(data) > most:
        raise too_large
    if not data:
        raise BadRequest(f"{at}: is empty", param=at, code="invalid_base64")
    return data


def _named(name: str | None, number: int) -> str:
    """As people read it: without folders and signs that steer a terminal."""
    return one_line(safe_name(name), LONGEST_NAME) or f"file-{number}" if name else f"file-{number}"


def _same(told: str, found: str | None, at: str) -> None:
    if told != found:
        is_what = found or "something else"
        raise BadRequest(f"{at}: it says {told}, and the bytes are {is_what}", param=at, code="wrong_file_type")


def _not_stored(given: Mapping[str, Any], at: str) -> None:
    if given.get("file_id") is not None:
        raise _unsupported(f"{at}.file_id", "there are no stored files here; send the bytes along as a data URL")


def _usual_detail(detail: Any, at: str) -> None:
    if detail not in (None, "auto"):
        raise _unsupported(at, "detail is not supported here; leave it out, or write auto")


def _known(given: Mapping[str, Any], names: Sequence[str], at: str) -> None:
    for name in given:
        if name not in names:
            raise _unsupported(f"{at}.{name[:LONGEST_TYPE]}", "is not supported here; leave it out")


def _unsupported(at: str, why: str) -> BadRequest:
    return BadRequest(f"{at}: {why}", param=at, code="unsupported_parameter")

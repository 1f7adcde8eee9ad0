"""Files as people send them: names without tricks, and types told by the first bytes. Pure."""

from typing import Literal

Kind = Literal["audio", "image", "video", "file"]

# The pictures that browsers and models show.
_PICTURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
# The sounds that browsers play. A file that begins as one of these or those is nothing that could run in a page.
_SOUNDS = {
    b"OggS": "audio/ogg",
    b"ID3": "audio/mpeg",
    b"\xff\xfb": "audio/mpeg",
    b"\xff\xf3": "audio/mpeg",
    b"\xff\xf2": "audio/mpeg",
    b"fLaC": "audio/flac",
    b"\xff\xf1": "audio/aac",
    b"\xff\xf9": "audio/aac",
}


def picture_type(start: bytes) -> str | None:
    """The type of a picture that browsers show, by its first bytes."""
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for magic, mime in _PICTURES.items() if start.startswith(magic)), None)


def sound_type(start: bytes) -> str | None:
    """The type of a sound that browsers play, by its first bytes."""
    if start[:4] == b"RIFF" and start[8:12] == b"WAVE":
        return "audio/wav"
    return next((mime for magic, mime in _SOUNDS.items() if start.startswith(magic)), None)


def kind_of(mime_type: str) -> Kind:
    """The kind of attachment that a file is."""
    match mime_type.partition("/")[0]:
        case "image":
            return "image"
        case "audio":
            return "audio"
        case "video":
            return "video"
        case _:
            return "file"


def safe_name(name: str) -> str:
    """A file name without folders, control characters or tricks of writing direction."""
    last = name.replace("\\", "/").rpartition("/")[2]
    clean = "".join(character for character in last if character.isprintable()).strip(" .")
    return clean[-120:] or "file"

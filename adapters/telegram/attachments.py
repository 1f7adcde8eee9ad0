"""The files of a Telegram message, from its raw JSON. Pure."""

import mimetypes
from collections.abc import Mapping
from typing import Any, Literal

from gateway.channels.inbound import Attachment

Kind = Literal["audio", "image", "video", "file"]


def attachments_of(message: Mapping[str, Any]) -> tuple[Attachment, ...]:
    """Every file of the message; an album arrives as one message a file."""
    found: list[Attachment] = []
    if sizes := message.get("photo"):
        largest = max(sizes, key=lambda size: size.get("width", 0) * size.get("height", 0))
        found.append(_attachment(largest, "image", "image/jpeg", "photo"))
    # An animation comes with a document of the same file, for clients that know no animations.
    if animation := message.get("animation"):
        found.append(_attachment(animation, "video", "video/mp4", "animation"))
    elif document := message.get("document"):
        mime_type = document.get("mime_type") or "application/octet-stream"
        found.append(_attachment(document, _kind(mime_type), mime_type, "document"))
    if voice := message.get("voice"):
        found.append(_attachment(voice, "audio", "audio/ogg", "voice"))
    if audio := message.get("audio"):
        found.append(_attachment(audio, "audio", "audio/mpeg", "audio"))
    if video := message.get("video"):
        found.append(_attachment(video, "video", "video/mp4", "video"))
    if note := message.get("video_note"):
        found.append(_attachment(note, "video", "video/mp4", "video-note"))
    return tuple(found)


def _kind(mime_type: str) -> Kind:
    family = mime_type.partition("/")[0]
    return family if family in ("audio", "image", "video") else "file"  # type: ignore[return-value]


def _attachment(file: Mapping[str, Any], kind: Kind, usual_type: str, stem: str) -> Attachment:
    mime_type = file.get("mime_type") or usual_type
    name = str(file.get("file_name") or "").replace("\\", "/").rpartition("/")[2].strip(". \0")
    if not name:
        suffix = ".jpg" if mime_type == "image/jpeg" else mimetypes.guess_extension(mime_type) or ""
        name = f"{stem}-{file.get('file_unique_id', '')}{suffix}"
    return Attachment(
        kind=kind, handle=str(file["file_id"]), name=name, mime_type=mime_type, size=file.get("file_size")
    )

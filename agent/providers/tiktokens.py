"""Real token counts by tiktoken, from vocabularies in this package: nothing is downloaded.

Loaded by name (`agent.turn.tokenizer`): importing and reading a vocabulary takes most of a second and 35 to 85 MB.
"""

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import tiktoken

FOLDER = Path(__file__).with_name("vocabularies")

# Encodings and their files: the name is the SHA-1 of the address that tiktoken has for it, as in its cache; then the
# SHA-256 of the contents, as in tiktoken_ext/openai_public.py.
VOCABULARIES = {
    "cl100k_base": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
    "o200k_base": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
}


def counter(encoding: str, folder: Path = FOLDER) -> Callable[[str], int]:
    """Counts with the encoding, whose vocabulary is in the folder.

    Raises ValueError for an unknown one, OSError where the vocabulary is not there or not as it was published.
    """
    if encoding not in VOCABULARIES:
        raise ValueError(f"unknown encoding {encoding!r}; known: {', '.join(VOCABULARIES)}")
    name, digest = VOCABULARIES[encoding]
    # tiktoken removes a file with other contents and downloads it, so that such a one must not reach it.
    if sha256((folder / name).read_bytes()).hexdigest() != digest:
        raise OSError(f"the vocabulary {folder / name} is damaged; install Tieline again")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)  # the only way to tell tiktoken; a folder of the host may lack it
    encode = tiktoken.get_encoding(encoding).encode_ordinary
    return lambda text: len(encode(text))

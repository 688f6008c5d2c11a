"""The pictures in the docs show the current page."""

import struct
from pathlib import Path

from playwright.sync_api import Browser

from .pictures import IMAGES, SIZE, take, take_memory


def size(picture: Path) -> tuple[int, int]:
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return width, height


def test_the_pictures_of_the_docs_can_be_taken_anew(browser: Browser, made, tmp_path):
    for picture in take(browser, made["invoices"], tmp_path):
        kept = IMAGES / picture.name
        assert size(picture) == size(kept) == (SIZE["width"], SIZE["height"])
        # Fonts differ between machines; an empty or broken page would be a tenth of the size.
        assert 0.5 < picture.stat().st_size / kept.stat().st_size < 2


def test_the_picture_of_the_memory_can_be_taken_anew(browser: Browser, made, tmp_path):
    for picture in take_memory(browser, made["invoices"], tmp_path):
        width, height = size(picture)
        assert (width, height) > (SIZE["width"] * 0.9, 300)
        assert size(IMAGES / picture.name)[0] == width

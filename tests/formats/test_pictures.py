"""Images and PDF pages as a model gets them: scaled, without metadata, and refused with a reason."""

import io

import pytest

from stackmem.core.images.vision import Vision
from stackmem.formats.pictures.convert import converted
from stackmem.formats.pictures.headers import header, without_metadata
from stackmem.run.companion.pictures import PictureRefused
from tests.providers.image_rules import png, size_of

Image = pytest.importorskip("PIL.Image", reason="Pillow is of the extra vision")
CLAUDE = Vision("claude", 1568, 1_568, 4 << 20, 100, 20 << 20)


def saved(picture, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def test_a_large_photo_is_scaled_turned_and_loses_its_place():
    exif = Image.Exif()
    exif[0x0112], exif[0x8825] = 6, {1: "N"}  # turned by a quarter; a place
    raw = saved(Image.effect_noise((3000, 2000), 50).convert("RGB"), "JPEG", exif=exif)
    assert b"Exif" in raw
    (picture,) = converted(raw, CLAUDE).pictures
    assert picture.height > picture.width
    assert CLAUDE.tokens(picture.width, picture.height) <= 1_568
    assert b"Exif" not in picture.raw
    assert size_of(picture.raw) == (picture.width, picture.height)


def test_a_small_photo_keeps_its_pixels_and_loses_its_metadata():
    exif = Image.Exif()
    exif[0x8825] = {1: "N"}
    raw = saved(Image.new("RGB", (64, 48), "teal"), "JPEG", exif=exif) + b"after the end"
    (picture,) = converted(raw, CLAUDE).pictures
    assert b"Exif" not in picture.raw
    assert picture.raw.endswith(b"\xff\xd9")
    assert Image.open(io.BytesIO(picture.raw)).tobytes() == Image.open(io.BytesIO(raw)).tobytes()


def test_the_first_frame_of_an_animation_is_shown():
    frames = [Image.new("RGB", (40, 30), (50 * number, 0, 0)) for number in range(5)]
    raw = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    shown = converted(raw, CLAUDE)
    assert shown.pictures[0].media == "image/png"
    assert shown.description == "40x30 GIF, the first of 5 frames"


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_the_header_is_read_without_decoding(kind: str):
    raw = saved(Image.new("RGB", (321, 123)), kind)
    assert (header(raw).width, header(raw).height, header(raw).kind) == (321, 123, kind)
    assert Image.open(io.BytesIO(without_metadata(raw, header(raw).media))).size == (321, 123)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (png(8, 8)[:50], "is broken: it is cut off"),
        (png(8, 8).replace(b"IDAT", b"IDAT", 1)[:45] + b"\xff" + png(8, 8)[46:], "is damaged"),
        (b"\xff\xd8\xff\xe0\0\x04ab", "is broken"),
        (b"<svg/>", "not a PNG, JPEG, GIF or WebP image"),
        (b"GIF89a\0\0\0\0", "0x0 pixels"),
    ],
)
def test_a_bad_file_is_refused_with_the_reason(raw: bytes, words: str):
    with pytest.raises(PictureRefused, match=words):
        converted(raw, CLAUDE)


def test_a_file_of_50_mib_is_refused():
    with pytest.raises(PictureRefused, match="larger than 32 MB"):
        converted(png(8, 8) + b"\0" * (50 << 20), CLAUDE)


def test_pages_of_a_pdf_with_two_thousand_pages():
    pytest.importorskip("pypdfium2", reason="pypdfium2 is of the extra vision")
    page = Image.new("L", (60, 80), "white")
    raw = saved(page, "PDF", save_all=True, append_images=[page] * 1_999)
    shown = converted(raw, CLAUDE, (1_999, 2_000))
    assert shown.description == "PDF, pages 1999 to 2000 of 2,000"
    assert all(CLAUDE.tokens(each.width, each.height) <= 1_568 for each in shown.pictures)
    with pytest.raises(PictureRefused, match="page 2,001 does not exist; the PDF has 2,000 pages"):
        converted(raw, CLAUDE, (2_001,))
    with pytest.raises(PictureRefused, match="11 pages are too many"):
        converted(raw, CLAUDE, tuple(range(1, 12)))


def test_the_decoder_can_open_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path):
    from stackmem.formats.pictures import decoder

    program = tmp_path / "decoder.py"
    source = open(decoder.__file__, encoding="utf-8").read()  # noqa: SIM115, PTH123
    spied = source.replace("    raw = sys.stdin.buffer.read()\n", "    raw = open('/etc/hostname', 'rb').read()\n")
    assert spied != source
    program.write_text(spied, encoding="utf-8")
    monkeypatch.setattr(decoder, "__file__", str(program))
    with pytest.raises(PictureRefused, match="decoder failed with exit code 1"):
        converted(png(8, 8), CLAUDE)

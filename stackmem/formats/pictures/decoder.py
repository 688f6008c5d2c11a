"""Program that decodes one image, or pages of a PDF, and prints the pictures to send. It can open nothing else.

It runs as ``python -I decoder.py ORDER`` with the file on standard input, because decoders of images are an attack
surface. It loads its libraries, gives up all rights and then reads the first byte. The answer is a line of JSON, then
the pictures. An order is JSON: ``confine`` (the path of confine.py and an order for it, or nothing), ``pixels`` (that
may be decoded), ``most_bytes`` (of one picture); for an image ``width``, ``height`` and ``keep`` (whether it may stay
as it is); for a PDF ``pages`` (numbers from 1), ``edge`` and ``area`` (of a page, in pixels).
"""

from __future__ import annotations

import importlib.util
import io
import json
import resource
import sys
from typing import Any

MEMORY_BYTES, CPU_SECONDS = 2 << 30, 30
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
_MAX_SCALE = 4.0  # 288 dots per inch


def main(order: dict[str, Any]) -> None:
    import PIL.GifImagePlugin
    import PIL.Image
    import PIL.ImageFile
    import PIL.ImageOps
    import PIL.JpegImagePlugin
    import PIL.PngImagePlugin
    import PIL.TiffImagePlugin  # reads the orientation
    import PIL.WebPImagePlugin

    if "pages" in order:
        import pypdfium2  # noqa: F401 - loaded before the rights are given up
    PIL.Image.preinit()
    _warm_up()
    PIL.Image.MAX_IMAGE_PIXELS = order["pixels"]
    _confine(order["confine"])
    raw = sys.stdin.buffer.read()
    try:
        report, pictures = _pages(raw, order) if "pages" in order else _picture(raw, order)
    except MemoryError:
        report, pictures = {"error": "decoding it takes too much memory"}, []
    except Exception as error:  # noqa: BLE001 - libraries raise many types for broken files
        report, pictures = {"error": str(error)[:300] or type(error).__name__}, []
    sys.stdout.buffer.write(json.dumps(report).encode() + b"\n" + b"".join(pictures))
    sys.stdout.buffer.flush()


def _warm_up() -> None:
    """Convert a small animation in each format, because the library loads parts of itself on first use."""
    from PIL import Image, ImageOps

    frames = [Image.new("P", (2, 2), color) for color in range(2)]
    for kind in _FORMATS:
        file = io.BytesIO()
        more = {"save_all": True, "append_images": frames[1:]} if kind != "JPEG" else {}
        frames[0].convert("RGB" if kind in ("JPEG", "WEBP") else "P").save(file, kind, **more)
        with Image.open(io.BytesIO(file.getvalue()), formats=_FORMATS) as opened:
            opened.getexif()
            opened.load()
            picture = _plain(ImageOps.exif_transpose(opened)).resize((1, 1), Image.Resampling.LANCZOS)
            _encoded(picture, 1, photo=False)


def _confine(confinement: list[Any]) -> None:
    """Allow no new file and no socket, and bound memory and time."""
    if confinement:
        spec = importlib.util.spec_from_file_location("confine", confinement[0])
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            module.apply(json.dumps(confinement[1]).encode())
    for name, most in (
        (resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_CPU, CPU_SECONDS), (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 3), (resource.RLIMIT_CORE, 0),
    ):  # fmt: skip
        resource.setrlimit(name, (most, most))


def _picture(raw: bytes, order: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    from PIL import Image, ImageOps

    with Image.open(io.BytesIO(raw), formats=_FORMATS) as opened:
        frames = int(getattr(opened, "n_frames", 1))
        turned = opened.getexif().get(0x0112, 1) not in (0, 1)
        opened.load()
        picture = ImageOps.exif_transpose(opened) if turned else opened
        width, height = order["width"], order["height"]
        if turned and (picture.width > picture.height) != (width > height):
            width, height = height, width
        report: dict[str, Any] = {"frames": frames, "turned": turned}
        if (width, height) == picture.size and not turned and frames == 1 and order["keep"]:
            return {**report, "same": True, "pictures": []}, []
        if (width, height) != picture.size:
            picture = _plain(picture).resize((width, height), Image.Resampling.LANCZOS)
        encoded = _encoded(picture, order["most_bytes"], photo=opened.format == "JPEG")
    return {**report, "pictures": [encoded[0]]}, [encoded[1]]


def _pages(raw: bytes, order: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    import pypdfium2

    document = pypdfium2.PdfDocument(raw)
    report: dict[str, Any] = {"pages": len(document), "pictures": []}
    pictures = []
    for number in order["pages"]:
        if number > len(document):
            break
        page = document[number - 1]
        width, height = page.get_size()
        size = max(1.0, width), max(1.0, height)
        scale = min(_MAX_SCALE, order["edge"] / max(size), (order["area"] / (size[0] * size[1])) ** 0.5)
        encoded = _encoded(page.render(scale=scale).to_pil(), order["most_bytes"], photo=False)
        report["pictures"].append(encoded[0])
        pictures.append(encoded[1])
        page.close()
    return report, pictures


def _plain(picture: Any) -> Any:
    """Return the picture in a mode that can be scaled and stored."""
    clear = "A" in picture.mode or "transparency" in picture.info
    return picture.convert("RGBA" if clear else "L" if picture.mode in ("1", "L") else "RGB")


def _encoded(picture: Any, most_bytes: int, *, photo: bool) -> tuple[dict[str, Any], bytes]:
    """Return a description of the picture and its bytes: PNG, or JPEG for photos and for what would be too large."""
    from PIL import Image

    picture = _plain(picture)
    raw = b""
    if not photo:
        raw = _saved(picture, "PNG", optimize=False)
    media = "image/png"
    if photo or len(raw) > most_bytes:
        media = "image/jpeg"
        if picture.mode == "RGBA":
            flat = Image.new("RGB", picture.size, "white")
            flat.paste(picture, mask=picture.getchannel("A"))
            picture = flat
        for quality in (88, 70, 45):
            raw = _saved(picture, "JPEG", quality=quality)
            if len(raw) <= most_bytes:
                break
    return {"media": media, "width": picture.width, "height": picture.height, "bytes": len(raw)}, raw


def _saved(picture: Any, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    picture.info.clear()  # without metadata
    picture.save(file, kind, **options)
    return file.getvalue()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

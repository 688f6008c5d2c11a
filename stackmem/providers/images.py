"""The images of a request: the newest ones that fit the provider's limits, and sentences about the others."""

from __future__ import annotations

import base64

from msgspec.structs import replace

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.images import ImageBytes, ImageRef, listed
from stackmem.core.images.vision import Vision
from stackmem.core.messages import Text, ToolResult, View

from .mending.mediator import noted

NO_VISION_NOTE = "\n(you cannot see images)"
LEFT_OUT = "\n(left out, because the request has more images than you can take; read it again to see it)"


class Sight:
    """The images of one request: the newest ones that fit the provider's limits, with their bytes."""

    def __init__(self, view: View, vision: Vision | None, image: ImageBytes) -> None:
        """Choose the images. If there are too many, the oldest are left out, a quarter of the limit each time.

        So the part of the prompt that changes moves rarely, and the provider's cache stays valid in between.
        """
        self.left_out = 0
        self._image, self._vision = image, vision
        refs = [ref for message in view.messages for part in message.parts for ref in images_in(part)]
        if vision is not None and refs:
            self.left_out = _too_many(refs, vision)
        self._skip = self.left_out

    def of(self, part: Text | ToolResult) -> tuple[list[tuple[ImageRef, bytes]], str]:
        """Return the images to send after a part, in the order of the request, and a sentence about missing ones.

        Call it once for each part, in order.
        """
        refs = listed(part.images)
        if not refs:
            return [], ""
        if self._vision is None:
            return [], NO_VISION_NOTE
        skipped = min(self._skip, len(refs))
        self._skip -= skipped
        images = [(ref, raw) for ref in refs[skipped:] if (raw := self._image(ref.digest)) is not None]
        return images, LEFT_OUT if skipped else ""

    def noted(self, answer: ModelReplied | ModelFailed) -> ModelReplied | ModelFailed:
        """Return the answer with a note about images that were left out of the request."""
        if not self.left_out:
            return answer
        note = f"left out the {self.left_out} oldest images, because the model takes no more in one request"
        return replace(answer, mended=(*noted(answer), note))


def data_url(ref: ImageRef, raw: bytes) -> str:
    return f"data:{ref.media};base64,{base64.b64encode(raw).decode()}"


def images_in(part: object) -> tuple[ImageRef, ...]:
    return listed(part.images) if isinstance(part, Text | ToolResult) else ()


def _too_many(refs: list[ImageRef], vision: Vision) -> int:
    """Return how many of the oldest images are left out."""
    step = max(1, vision.images // 4)
    out = 0
    while len(refs) - out > vision.images or sum(ref.bytes for ref in refs[out:]) > vision.request_bytes:
        out += min(step, len(refs) - out)
    return out

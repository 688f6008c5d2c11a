"""Passes items on: one line each, at the end of the outbox."""

import json

from relay.settings.model import NotifySettings


def notify(items, settings: NotifySettings):
    with open(settings.outbox, "a", encoding="utf-8") as file:
        for item_id, title, score in items:
            file.write(line(item_id, title, score, settings) + "\n")


def line(item_id, title, score, settings: NotifySettings):
    if settings.format == "json":
        return json.dumps({"id": item_id, "title": title, "score": score, "token": settings.token})
    return f"{score:>6.1f}  {title}  [{item_id}]"

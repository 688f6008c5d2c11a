"""Passes items on: one line each, at the end of the outbox."""

import json

from relay.config import FORMAT, OUTBOX, TOKEN


def notify(items, outbox=None):
    from relay import config

    with open(outbox or config.OUTBOX, "a", encoding="utf-8") as file:
        for item_id, title, score in items:
            file.write(line(item_id, title, score) + "\n")


def line(item_id, title, score):
    from relay import config

    if config.FORMAT == "json":
        return json.dumps({"id": item_id, "title": title, "score": score, "token": config.TOKEN})
    return f"{score:>6.1f}  {title}  [{item_id}]"

"""Reads the feeds in the inbox."""

import glob
import json
import os

from relay.settings.model import FetchSettings


def fetch_items(settings: FetchSettings):
    """The items worth passing on, and the names of the files that are no feeds."""
    items, skipped = [], []
    for path in sorted(glob.glob(os.path.join(glob.escape(settings.inbox), "*.json"))):
        try:
            with open(path, encoding="utf-8") as file:
                feed = json.load(file)
            items += [(item["id"], item["title"], item.get("score", 0)) for item in feed]
        except (ValueError, KeyError, TypeError):
            skipped.append(os.path.basename(path))
    return [item for item in items if wanted(item, settings)][: settings.max_items], skipped


def wanted(item, settings: FetchSettings):
    _, title, score = item
    if score < settings.min_score:
        return False
    return not settings.keywords or any(word in title.lower() for word in settings.keywords)

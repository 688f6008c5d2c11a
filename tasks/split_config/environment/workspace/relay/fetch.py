"""Reads the feeds in the inbox."""

import glob
import json
import os

from relay.config import KEYWORDS, MAX_ITEMS  # noqa: F401  (kept for plugins)
from relay import config


def fetch_items():
    """The items worth passing on, and how many files could not be read."""
    items, skipped = [], 0
    for path in sorted(glob.glob(os.path.join(glob.escape(config.INBOX), "*.json"))):
        try:
            with open(path, encoding="utf-8") as file:
                feed = json.load(file)
            items += [(item["id"], item["title"], item.get("score", 0)) for item in feed]
        except (ValueError, KeyError, TypeError):
            if config.DEBUG:
                print(f"debug: {os.path.basename(path)} is no feed")
            skipped += 1
    return [item for item in items if wanted(item)][: config.MAX_ITEMS], skipped


def wanted(item):
    _, title, score = item
    if score < config.MIN_SCORE:
        return False
    return not config.KEYWORDS or any(word in title.lower() for word in config.KEYWORDS)

"""What relay has seen: ids in a JSON file, oldest first."""

import json
import os

from relay import config


class Store:
    def __init__(self):
        self.ids = []
        if os.path.exists(config.STORE_PATH):
            with open(config.STORE_PATH, encoding="utf-8") as file:
                self.ids = json.load(file)

    def seen(self, item_id):
        return item_id in self.ids

    def add(self, item_id):
        self.ids.append(item_id)

    def save(self):
        with open(config.STORE_PATH, "w", encoding="utf-8") as file:
            json.dump(self.ids[-config.STORE_KEEP :], file)

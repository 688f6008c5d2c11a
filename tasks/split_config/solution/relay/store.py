"""What relay has seen: ids in a JSON file, oldest first."""

import json
import os

from relay.settings.model import StoreSettings


class Store:
    def __init__(self, settings: StoreSettings):
        self.settings = settings
        self.ids = []
        if os.path.exists(settings.path):
            with open(settings.path, encoding="utf-8") as file:
                self.ids = json.load(file)

    def seen(self, item_id):
        return item_id in self.ids

    def add(self, item_id):
        self.ids.append(item_id)

    def save(self):
        with open(self.settings.path, "w", encoding="utf-8") as file:
            json.dump(self.ids[-self.settings.keep :], file)

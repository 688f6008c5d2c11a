"""Settings: loaded once, handed on. sources.py says where they come from, validate.py what is good."""

from relay.settings.model import FetchSettings, NotifySettings, Settings, StoreSettings
from relay.settings.sources import Raw, masked, read_sources
from relay.settings.validate import SettingsError, validated

__all__ = [
    "FetchSettings",
    "NotifySettings",
    "Raw",
    "Settings",
    "SettingsError",
    "StoreSettings",
    "load_settings",
    "masked",
    "read_sources",
    "validated",
]


def load_settings(flags, environ, folder):
    """The settings from defaults, file, environment and flags; SettingsError names all that is wrong."""
    return validated(read_sources(flags, environ, folder))

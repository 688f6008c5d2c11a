"""Network access from a sandbox to listed hosts only, through a proxy that runs outside of it."""

"""A copy of or overlay over a folder, its file trees over time, and the patch that applies its changes to the
folder.
"""

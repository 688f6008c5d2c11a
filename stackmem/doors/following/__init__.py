"""Lets a conversation follow the user's folder: its files, HEAD and the index of its repository."""

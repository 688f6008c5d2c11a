"""Plug-ins: installed packages that extend the tables of the kernel and its neighbors."""

"""Sections of the dashboard on what goes on now."""

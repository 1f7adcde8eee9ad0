"""Sections of the dashboard on the program and its settings."""

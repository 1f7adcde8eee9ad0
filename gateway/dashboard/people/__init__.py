"""Sections of the dashboard on people and what is kept of them."""

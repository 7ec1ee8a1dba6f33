"""Results -> HTML, Markdown and JSON that people read."""

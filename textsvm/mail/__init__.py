"""A mail filter: messages, lessons, decisions, and the faces that mail programs call."""

"""A mail filter: messages, lessons, decisions, and protocols of mail programs."""

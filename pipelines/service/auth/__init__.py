"""Authentication and authorization: tokens, login links, sessions, rate limits, and the guard."""

"""Collecting judgments: campaigns, protocols, the server and its page, sheets."""

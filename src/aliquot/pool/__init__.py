"""Pools: choosing among millions of sources, more than memory holds, before any output exists."""

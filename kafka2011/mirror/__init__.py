"""Copying topics into another cluster as they grow, and publishing stored ones again (paper, section 4).

Sets pass as the bytes that were stored, so a message costs next to nothing and compressed sets are never opened.
"""

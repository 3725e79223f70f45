"""Findings from the events that the program's processes recorded while it ran (`observe`).

events -> (requests, regions, devices, names) -> findings
"""

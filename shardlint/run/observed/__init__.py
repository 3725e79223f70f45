"""What the program's processes saw while it ran (`observe`), made into findings.

events -> (requests, regions, devices, names) -> findings
"""

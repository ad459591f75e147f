"""Defects that tests plant in shipped code: as patches, which `make lint` checks for applying."""

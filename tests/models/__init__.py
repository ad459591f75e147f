"""Models: shipped parts driven through many orders of events, each compared with what must hold then."""

"""Records what `kafka2011 lab page` shows: shipped code in the models of the tests, one step after the other."""

"""Every sh and python block of the documents: run on real clusters, checked by another test, or marked."""

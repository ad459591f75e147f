"""What experiments run in processes of their own, besides clients: each a module that `Worker` runs."""

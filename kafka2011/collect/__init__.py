"""The log collector: lines of files, standard input and sockets become messages, each at least once."""

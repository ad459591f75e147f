"""What a broker does with requests; no sockets."""

"""The requests and responses of today's clients. Pure.

`tables` lists the fields of each message, `compiler` makes a reader or writer of such a list, and `frames` uses them:
`read_request` and `write_response` are what a server calls. `errors` has the error codes.

A body is a dict: the names are those of Kafka's protocol, in snake case, and stay the same in all versions. Values:

    bool, int8 ... int64     bool, int
    string                   str; bytes that are no UTF-8 become U+FFFD, as in Kafka
    uuid                     bytes, 16 of them
    bytes                    bytes
    records                  memoryview of the frame that was read; to write, bytes or a list of them
    an array                 list; its structs are dicts again

A null is None. What a version has no field for is left out by both reader and writer.
"""

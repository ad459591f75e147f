"""An application that is monkey-patched by gevent, and sends 100 messages by each kind of producer."""

from gevent import monkey

monkey.patch_all()

import sys  # noqa: E402

import gevent  # noqa: E402

from kafka2011.producer.producer import Producer  # noqa: E402

turns = 0


def count_turns() -> None:
    """Run beside the producers."""
    global turns  # noqa: PLW0603
    while True:
        turns += 1
        gevent.sleep(0.001)


def main(zk_connect: str) -> None:
    """Send by each kind of producer."""
    gevent.spawn(count_turns)
    for producer_type in ("sync", "async"):
        for confirm in (False, True):
            config = {
                "zk.connect": zk_connect,
                "zk.connectiontimeout.ms": 20000,
                "producer.type": producer_type,
                "confirm": confirm,
                "queue.time": 20,
            }
            before = turns
            with Producer(config) as producer:
                futures = [producer.send("views", b"%d" % number, "key") for number in range(100)]
                for future in futures:
                    assert future is None or future.result(20).confirmed is confirm
            assert turns > before, "nothing else ran meanwhile"
            assert producer.counts.messages_sent == 100
            sys.stdout.write(producer_type + ("-confirmed" if confirm else "") + "\n")
    sys.stdout.write("others-ran\n")


main(sys.argv[1])

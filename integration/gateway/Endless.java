import java.io.FileWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * A member of a group, or an idempotent producer, of kafka-clients that must not end by itself.
 *
 * <p>`member FILE SERVERS TOPIC GROUP NAME` writes what group_member.py says; `producer FILE SERVERS TOPIC PARTITIONS
 * PREFIX PATIENCE_MS` writes `SECONDS acked PARTITION VALUE OFFSET` for each record, and `failed` with the error in place of the
 * offset for one that it was told is lost. SIGTERM ends both in order, with a last line `ended`. Settings are the
 * defaults, apart from how long the producer tries.
 */
public final class Endless {
    private static final long COMMIT_NS = 500_000_000L;
    private static volatile boolean isStopped;
    private static FileWriter file;

    public static void main(String[] given) throws Exception {
        file = new FileWriter(given[1], true);
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            isStopped = true;
            try {
                main.join(60_000);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }));
        if (given[0].equals("member")) consume(given[2], given[3], given[4], given[5]);
        else produce(given[2], given[3], Integer.parseInt(given[4]), given[5], given[6]);
        note("ended", 0, "-");
    }

    static synchronized void line(String text) {
        try {
            file.write(text + "\n");
            file.flush();
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    static void note(String what, int partition, String value) {
        line(String.format("%.6f %s %d %s", System.nanoTime() / 1e9, what, partition, value));
    }

    static void consume(String servers, String topic, String group, String name) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", group);
        settings.put("client.id", name);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        Map<Integer, String> last = new HashMap<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> lost) {
                    commit(consumer, last);
                    lost.forEach(each -> last.remove(each.partition()));
                }

                @Override
                public void onPartitionsLost(Collection<TopicPartition> lost) {
                    lost.forEach(each -> last.remove(each.partition()));
                }

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> given) {
                    given.forEach(each -> note("has", each.partition(), "-"));
                }
            });
            long committed = System.nanoTime();
            while (!isStopped) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    note("got", record.partition(), record.value());
                    last.put(record.partition(), record.value());
                }
                if (System.nanoTime() - committed > COMMIT_NS) {
                    commit(consumer, last);
                    committed = System.nanoTime();
                }
            }
            commit(consumer, last);
        }
    }

    /** Commits what was polled; a commit that fails is one that was not made, and polling goes on. */
    static void commit(KafkaConsumer<String, String> consumer, Map<Integer, String> last) {
        Map<Integer, String> done = Map.copyOf(last);
        try {
            consumer.commitSync();
        } catch (RuntimeException error) {
            System.err.println("not committed: " + error);
            return;
        }
        done.forEach((partition, value) -> note("done", partition, value));
    }

    static void produce(String servers, String topic, int partitions, String prefix, String patienceMs)
            throws InterruptedException {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("acks", "all");
        settings.put("enable.idempotence", "true"); // as is the default
        settings.put("delivery.timeout.ms", patienceMs);
        if (Long.parseLong(patienceMs) > 120_000) settings.put("max.block.ms", patienceMs);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            for (long number = 0; !isStopped; number++) {
                int partition = (int) (number % partitions);
                String value = prefix + partition + "-" + number;
                producer.send(new ProducerRecord<>(topic, partition, null, value), (told, error) -> {
                    if (error == null) note("acked", partition, value + " " + told.offset());
                    else note("failed", partition, value + " " + error);
                });
                Thread.sleep(5);
            }
            producer.flush();
        }
    }
}

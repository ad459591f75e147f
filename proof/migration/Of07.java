import java.io.FileWriter;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerTimeoutException;
import kafka.consumer.KafkaStream;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.javaapi.producer.Producer;
import kafka.javaapi.producer.ProducerData;
import kafka.message.Message;
import kafka.message.MessageAndMetadata;
import kafka.producer.ProducerConfig;
import kafka.serializer.DefaultDecoder;

/**
 * A consumer or a producer of Kafka 0.7.2 that must not end by itself.
 *
 * <p>`member FILE ZOOKEEPER TOPIC,... GROUP SETTING=VALUE...` writes `TIME got - VALUE` for each message. `producer FILE
 * ZOOKEEPER TOPIC PREFIX SETTING=VALUE...` writes `sent VALUE` once 0.7.2's producer has returned, and `failed VALUE`
 * when it threw; then it sends the same values again. SIGTERM ends both in order. `keys FILE ZOOKEEPER TOPIC COUNT`
 * sends the values 0 to COUNT - 1, each with itself as its key, and ends.
 */
public final class Of07 {
    private static final int IN_A_SET = 5;
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
        if (given[0].equals("member")) consume(given);
        else if (given[0].equals("keys")) sendKeys(given[2], given[3], Integer.parseInt(given[4]));
        else produce(given);
    }

    static synchronized void write(String text) throws IOException {
        file.write(text);
        file.flush();
    }

    /** Adds settings that were given behind the first five arguments. */
    static void put(Properties settings, String[] given) {
        for (int index = 5; index < given.length; index++) {
            String[] parts = given[index].split("=", 2);
            settings.put(parts[0], parts[1]);
        }
    }

    static void consume(String[] given) throws InterruptedException {
        Properties settings = new Properties();
        settings.put("zk.connect", given[2]);
        settings.put("groupid", given[4]);
        settings.put("autooffset.reset", "smallest");
        settings.put("autocommit.interval.ms", "1000");
        settings.put("consumer.timeout.ms", "100");
        put(settings, given);
        ConsumerConnector connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(settings));
        Map<String, Integer> counts = new HashMap<>();
        for (String topic : given[3].split(",")) counts.put(topic, 1);
        List<Thread> readers = new ArrayList<>();
        connector.createMessageStreams(counts, new DefaultDecoder()).values().forEach(
            streams -> readers.add(new Thread(() -> read(streams.get(0)))));
        readers.forEach(Thread::start);
        for (Thread reader : readers) reader.join();
        connector.shutdown();
    }

    /** Reads a stream until SIGTERM; an error that the connector gives the application ends the process. */
    static void read(KafkaStream<Message> stream) {
        try {
            while (!isStopped) {
                try {
                    for (MessageAndMetadata<Message> found : stream) {
                        byte[] value = new byte[found.message().payload().remaining()];
                        found.message().payload().get(value);
                        write(String.format("%.6f got - %s\n", System.nanoTime() / 1e9, new String(value)));
                        if (isStopped) break;
                    }
                } catch (ConsumerTimeoutException error) {
                    continue;  // so that it sees that it is to stop
                }
            }
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    static void produce(String[] given) throws Exception {
        Properties settings = new Properties();
        settings.put("zk.connect", given[2]);
        settings.put("serializer.class", "kafka.serializer.StringEncoder");
        put(settings, given);
        Producer<String, String> producer = new Producer<>(new ProducerConfig(settings));
        for (long number = 0; !isStopped; ) {
            List<String> values = new ArrayList<>();
            for (int index = 0; index < IN_A_SET; index++) values.add(given[4] + number++);
            while (!send(producer, given[3], values) && !isStopped) Thread.sleep(200);
            Thread.sleep(50);
        }
        producer.close();
    }

    static void sendKeys(String zookeeper, String topic, int count) {
        Properties settings = new Properties();
        settings.put("zk.connect", zookeeper);
        settings.put("serializer.class", "kafka.serializer.StringEncoder");
        Producer<String, String> producer = new Producer<>(new ProducerConfig(settings));
        for (int number = 0; number < count; number++) {
            String key = Integer.toString(number);
            producer.send(new ProducerData<>(topic, key, List.of(key)));
        }
        producer.close();
    }

    static boolean send(Producer<String, String> producer, String topic, List<String> values) throws IOException {
        String what = "sent ";
        try {
            producer.send(new ProducerData<>(topic, null, values));
        } catch (Exception error) {  // Scala's code throws checked ones that it does not declare
            System.err.println("not sent: " + error);
            what = "failed ";
        }
        for (String value : values) write(what + value + "\n");
        return what.equals("sent ");
    }
}

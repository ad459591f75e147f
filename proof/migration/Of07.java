import java.io.FileWriter;
import java.io.IOException;
import java.util.ArrayList;
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
 * <p>`member FILE ZOOKEEPER TOPIC GROUP` writes `TIME got - VALUE` for each message; `producer FILE ZOOKEEPER TOPIC
 * PREFIX SETTING=VALUE...` writes `sent VALUE` once 0.7.2's producer has returned, and `failed VALUE` when it threw.
 * After a failure it sends the same values again. SIGTERM ends both in order.
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
        if (given[0].equals("member")) consume(given[2], given[3], given[4]);
        else produce(given);
    }

    static void write(String text) throws IOException {
        file.write(text);
        file.flush();
    }

    static void consume(String zookeeper, String topic, String group) throws IOException {
        Properties settings = new Properties();
        settings.put("zk.connect", zookeeper);
        settings.put("groupid", group);
        settings.put("autooffset.reset", "smallest");
        settings.put("autocommit.interval.ms", "1000");
        settings.put("consumer.timeout.ms", "100");
        ConsumerConnector connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(settings));
        KafkaStream<Message> stream =
            connector.createMessageStreams(Map.of(topic, 1), new DefaultDecoder()).get(topic).get(0);
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
        connector.shutdown();
    }

    static void produce(String[] given) throws Exception {
        Properties settings = new Properties();
        settings.put("zk.connect", given[2]);
        settings.put("serializer.class", "kafka.serializer.StringEncoder");
        for (int index = 5; index < given.length; index++) {
            String[] parts = given[index].split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        Producer<String, String> producer = new Producer<>(new ProducerConfig(settings));
        for (long number = 0; !isStopped; ) {
            List<String> values = new ArrayList<>();
            for (int index = 0; index < IN_A_SET; index++) values.add(given[4] + number++);
            while (!send(producer, given[3], values) && !isStopped) Thread.sleep(200);
            Thread.sleep(50);
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

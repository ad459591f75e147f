import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** The driver for kafka-clients; see clients.py for what all drivers do. */
public final class Drive {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        String way = arguments[1];
        String topic = arguments[2];
        boolean isDone = way.equals("produce")
            ? produce(settings, topic) : consume(settings, topic, arguments[3], way.equals("commit"));
        System.out.flush();
        Runtime.getRuntime().halt(isDone ? 0 : 1);
    }

    static void say(String what, Object text) {
        System.out.println(what + " " + String.valueOf(text).replace('\n', ' '));
        System.out.flush();
    }

    static boolean produce(Properties settings, String topic) {
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("enable.idempotence", "true");
        boolean isSent = false;
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
        for (String value : List.of("one", "two")) {
            try {
                producer.send(new ProducerRecord<>(topic, value)).get(30, TimeUnit.SECONDS);
                say("sent", value);
                isSent = true;
            } catch (Exception error) {
                say("told", error);
                isSent = false;
            }
        }
        return isSent;
    }

    static boolean consume(Properties settings, String topic, String group, boolean commits) {
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("heartbeat.interval.ms", "500");
        settings.put("session.timeout.ms", "6000");
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(List.of(topic));
        int failures = 0;
        while (true) {
            try {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    say("read", record.value());
                    if (commits) consumer.commitSync();
                    if (record.value().equals("last")) return true;
                }
                if (commits) consumer.commitSync();
            } catch (RuntimeException error) {
                say("told", error);
                if (++failures > 20) return false;
            }
        }
    }
}

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericEnumSymbol;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.io.DecoderFactory;

/**
 * Says what Avro's library for Java makes of pairs of schemas. Reads a line of JSON for each: "writer" and "reader",
 * and in "bodies" events of the writer's, base64. Writes a line for each: "compatible", and in "values" what the reader
 * gets of each event, null where it gets an error. Where a schema is refused, "refused" says why, and nothing else is
 * said.
 */
public class AvroOfJava {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    private static ObjectNode answer(JsonNode question) {
        ObjectNode answer = JSON.createObjectNode();
        Schema writer;
        Schema reader;
        try {
            writer = new Schema.Parser().parse(question.get("writer").asText());
            reader = new Schema.Parser().parse(question.get("reader").asText());
        } catch (RuntimeException error) {
            return answer.put("refused", error.toString());
        }
        SchemaCompatibility.SchemaCompatibilityType type =
                SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getType();
        answer.put("compatible", type == SchemaCompatibility.SchemaCompatibilityType.COMPATIBLE);
        ArrayNode values = answer.putArray("values");
        for (JsonNode body : question.get("bodies")) {
            try {
                byte[] bytes = Base64.getDecoder().decode(body.asText());
                Object datum = new GenericDatumReader<Object>(writer, reader)
                        .read(null, DecoderFactory.get().binaryDecoder(bytes, null));
                values.add(shown(datum));
            } catch (Exception error) {
                values.addNull();
            }
        }
        return answer;
    }

    private static JsonNode shown(Object datum) {
        if (datum instanceof IndexedRecord) {
            IndexedRecord record = (IndexedRecord) datum;
            ObjectNode node = JSON.createObjectNode();
            for (Schema.Field field : record.getSchema().getFields()) {
                node.set(field.name(), shown(record.get(field.pos())));
            }
            return node;
        }
        if (datum instanceof Map) {
            ObjectNode node = JSON.createObjectNode();
            ((Map<?, ?>) datum).forEach((key, value) -> node.set(key.toString(), shown(value)));
            return node;
        }
        if (datum instanceof Iterable) {
            ArrayNode node = JSON.createArrayNode();
            ((Iterable<?>) datum).forEach(item -> node.add(shown(item)));
            return node;
        }
        if (datum instanceof GenericFixed) {
            return JSON.valueToTree(new String(((GenericFixed) datum).bytes(), StandardCharsets.ISO_8859_1));
        }
        if (datum instanceof ByteBuffer) {
            return JSON.valueToTree(StandardCharsets.ISO_8859_1.decode(((ByteBuffer) datum).duplicate()).toString());
        }
        if (datum instanceof CharSequence || datum instanceof GenericEnumSymbol) {
            return JSON.valueToTree(datum.toString());
        }
        return JSON.valueToTree(datum instanceof Float ? ((Float) datum).doubleValue() : datum);
    }
}

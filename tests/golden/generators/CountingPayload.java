package example.mergers;

import java.io.IOException;
import java.util.Properties;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.generic.IndexedRecord;
import org.apache.hudi.common.model.OverwriteWithLatestAvroPayload;
import org.apache.hudi.common.util.Option;

/**
 * A payload class of a user's: counts are added, a missing note is taken from the older record, and a row whose count
 * falls below zero is deleted. The result depends on every version of a key, and on their order.
 */
public class CountingPayload extends OverwriteWithLatestAvroPayload {
  public CountingPayload(GenericRecord record, Comparable orderingVal) {
    super(record, orderingVal);
  }

  public CountingPayload(Option<GenericRecord> record) {
    super(record);
  }

  @Override
  public Option<IndexedRecord> combineAndGetUpdateValue(IndexedRecord older, Schema schema) throws IOException {
    Option<IndexedRecord> inserted = getInsertValue(schema);
    if (!inserted.isPresent()) {
      return Option.empty();
    }
    GenericRecord newer = (GenericRecord) inserted.get();
    int count = schema.getField("n").pos();
    int note = schema.getField("note").pos();
    long sum = (Long) older.get(count) + (Long) newer.get(count);
    if (sum < 0) {
      return Option.empty();
    }
    // a new record: Hudi 1.2.0 ignores changes of the one that it passed
    GenericRecord merged = new GenericData.Record(schema);
    for (Schema.Field field : schema.getFields()) {
      merged.put(field.pos(), newer.get(field.pos()));
    }
    merged.put(count, sum);
    if (newer.get(note) == null) {
      merged.put(note, older.get(note));
    }
    return Option.of(merged);
  }

  @Override
  public Option<IndexedRecord> combineAndGetUpdateValue(IndexedRecord older, Schema schema, Properties properties)
      throws IOException {
    return combineAndGetUpdateValue(older, schema);
  }
}

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.hadoop.conf.Configuration;
import org.apache.hudi.client.HoodieJavaWriteClient;
import org.apache.hudi.client.WriteStatus;
import org.apache.hudi.client.common.HoodieJavaEngineContext;
import org.apache.hudi.common.config.RecordMergeMode;
import org.apache.hudi.common.model.DefaultHoodieRecordPayload;
import org.apache.hudi.common.model.HoodieAvroRecord;
import org.apache.hudi.common.model.HoodieKey;
import org.apache.hudi.common.model.HoodieOperation;
import org.apache.hudi.common.model.HoodieRecord;
import org.apache.hudi.common.model.WriteOperationType;
import org.apache.hudi.common.table.HoodieTableMetaClient;
import org.apache.hudi.common.table.HoodieTableVersion;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.config.HoodieWriteConfig;
import org.apache.hudi.index.inmemory.HoodieInMemoryHashIndex;
import org.apache.hudi.storage.hadoop.HadoopStorageConfiguration;

/**
 * Writes one table with Hudi's Java client, as a script says. Run by gen_D.py.
 *
 * <p>Arguments: the table's folder, and a file of steps, one a line, fields separated by spaces:
 *
 * <pre>
 * table TYPE VERSION [property=value ...]   creates the table
 * option key=value                          a write option of all later steps
 * upsert|insert|bulk_insert RECORD ...      one commit; a RECORD is KIND:key:ts:v, KIND is I, -U, U or D
 * delete key ...                            one commit that deletes keys
 * compact | cluster | clean | archive       one table service
 * </pre>
 */
public class WriteChangelog {
  private static final String SCHEMA = "{\"type\":\"record\",\"name\":\"row\",\"fields\":["
      + "{\"name\":\"id\",\"type\":\"string\"},{\"name\":\"ts\",\"type\":\"long\"},"
      + "{\"name\":\"v\",\"type\":[\"null\",\"long\"],\"default\":null},"
      + "{\"name\":\"p\",\"type\":\"string\"}]}";

  private final String folder;
  private final Properties options = new Properties();
  private final HadoopStorageConfiguration storage = new HadoopStorageConfiguration(new Configuration());

  private WriteChangelog(String folder) {
    this.folder = folder;
  }

  public static void main(String[] args) throws Exception {
    WriteChangelog writer = new WriteChangelog(args[0]);
    for (String line : Files.readAllLines(Path.of(args[1]), StandardCharsets.UTF_8)) {
      if (!line.isBlank()) {
        writer.step(line.trim().split(" +"));
      }
    }
  }

  private void step(String[] words) throws Exception {
    switch (words[0]) {
      case "table":
        create(words);
        return;
      case "option":
        set(options, words[1]);
        return;
      default:
    }
    try (HoodieJavaWriteClient<DefaultHoodieRecordPayload> client =
        new HoodieJavaWriteClient<>(new HoodieJavaEngineContext(storage), config())) {
      switch (words[0]) {
        case "compact":
          client.compact(client.scheduleCompaction(Option.empty()).get(), true);
          return;
        case "cluster":
          client.cluster(client.scheduleClustering(Option.empty()).get(), true);
          return;
        case "clean":
          client.clean();
          return;
        case "archive":
          client.archive();
          return;
        default:
          write(client, words);
      }
    }
  }

  private void create(String[] words) throws Exception {
    HoodieInMemoryHashIndex.clear();
    int version = Integer.parseInt(words[2]);
    Properties properties = new Properties();
    for (int place = 3; place < words.length; place++) {
      set(properties, words[place]);
    }
    HoodieTableMetaClient.TableBuilder builder = HoodieTableMetaClient.newTableBuilder().fromProperties(properties)
        .setTableType(words[1])
        .setTableName("t")
        .setTableVersion(version)
        .setRecordKeyFields("id")
        .setPartitionFields("p")
        .setOrderingFields("ts")
        .setKeyGeneratorClassProp("org.apache.hudi.keygen.SimpleAvroKeyGenerator")
        .setPayloadClassName(DefaultHoodieRecordPayload.class.getName());
    if (version >= HoodieTableVersion.EIGHT.versionCode()) {
      builder.setRecordMergeMode(RecordMergeMode.EVENT_TIME_ORDERING);
    }
    builder.initTable(storage, folder);
    options.setProperty("hoodie.write.table.version", words[2]);
    options.setProperty("hoodie.write.auto.upgrade", "false");
  }

  private HoodieWriteConfig config() {
    Properties properties = new Properties();
    properties.putAll(options);
    return HoodieWriteConfig.newBuilder().withPath(folder).withSchema(SCHEMA).withProperties(properties).build();
  }

  private void write(HoodieJavaWriteClient<DefaultHoodieRecordPayload> client, String[] words) throws Exception {
    WriteOperationType kind = WriteOperationType.fromValue(words[0]);
    client.setOperationType(kind);
    String instant = client.startCommit();
    List<HoodieRecord<DefaultHoodieRecordPayload>> records = new ArrayList<>();
    List<HoodieKey> keys = new ArrayList<>();
    for (int place = 1; place < words.length; place++) {
      if (kind == WriteOperationType.DELETE) {
        keys.add(new HoodieKey(words[place], "x"));
      } else {
        records.add(record(words[place].split(":")));
      }
    }
    List<WriteStatus> statuses;
    switch (kind) {
      case UPSERT:
        statuses = client.upsert(records, instant);
        break;
      case INSERT:
        statuses = client.insert(records, instant);
        break;
      case BULK_INSERT:
        statuses = client.bulkInsert(records, instant);
        break;
      case DELETE:
        statuses = client.delete(keys, instant);
        break;
      default:
        throw new IllegalArgumentException("no such step: " + words[0]);
    }
    for (WriteStatus status : statuses) {
      if (status.hasErrors()) {
        throw new IllegalStateException(words[0] + ": " + status.getErrors() + " " + status.getGlobalError());
      }
    }
    client.commit(instant, statuses);
  }

  private static HoodieRecord<DefaultHoodieRecordPayload> record(String[] parts) {
    GenericRecord row = new GenericData.Record(new Schema.Parser().parse(SCHEMA));
    row.put("id", parts[1]);
    row.put("ts", Long.parseLong(parts[2]));
    row.put("v", parts[3].isEmpty() ? null : Long.parseLong(parts[3]));
    row.put("p", "x");
    return new HoodieAvroRecord<>(new HoodieKey(parts[1], "x"),
        new DefaultHoodieRecordPayload(row, Long.parseLong(parts[2])), HoodieOperation.fromName(parts[0]));
  }

  private static void set(Properties properties, String pair) {
    int cut = pair.indexOf('=');
    properties.setProperty(pair.substring(0, cut), pair.substring(cut + 1));
  }
}

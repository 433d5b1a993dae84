import org.apache.avro.generic.GenericRecord;
import org.apache.hudi.common.config.TypedProperties;
import org.apache.hudi.keygen.SimpleKeyGenerator;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** A user's key generator: the path of the date 2024-01-02 is M01. */
public class MonthPathKeyGenerator extends SimpleKeyGenerator {
  public MonthPathKeyGenerator(TypedProperties properties) {
    super(properties);
  }

  private static String month(String path) {
    int at = path.indexOf('=') + 1;
    return path.substring(0, at) + "M" + path.substring(at + 5, at + 7);
  }

  @Override
  public String getPartitionPath(GenericRecord record) {
    return month(super.getPartitionPath(record));
  }

  @Override
  public String getPartitionPath(Row row) {
    return month(super.getPartitionPath(row));
  }

  @Override
  public UTF8String getPartitionPath(InternalRow row, StructType schema) {
    return UTF8String.fromString(month(super.getPartitionPath(row, schema).toString()));
  }
}

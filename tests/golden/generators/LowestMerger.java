package example.mergers;

import org.apache.hudi.common.config.TypedProperties;
import org.apache.hudi.common.engine.RecordContext;
import org.apache.hudi.common.model.HoodieRecord.HoodieRecordType;
import org.apache.hudi.common.model.HoodieRecordMerger;
import org.apache.hudi.common.table.read.BufferedRecord;

/**
 * A record merger of a user's: the record with the lower ordering value wins, of equals the newer one. This holds for
 * deletes, too: a delete with a higher value changes nothing. A delete without a value of its own always wins.
 */
public class LowestMerger implements HoodieRecordMerger {
  public static final String STRATEGY = "5c1f0a52-7e0d-4f6a-9a3e-2f6d5b0c4e11";

  @Override
  public <T> BufferedRecord<T> merge(
      BufferedRecord<T> older, BufferedRecord<T> newer, RecordContext<T> context, TypedProperties properties) {
    if (HoodieRecordMerger.isCommitTimeOrderingDelete(older, newer)) {
      return newer;
    }
    return newer.getOrderingValue().compareTo(older.getOrderingValue()) <= 0 ? newer : older;
  }

  @Override
  public HoodieRecordType getRecordType() {
    return HoodieRecordType.SPARK;
  }

  @Override
  public String getMergingStrategy() {
    return STRATEGY;
  }
}

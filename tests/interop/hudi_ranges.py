"""Ranges as Hudi's Flink source selects them, and the names of Hudi's options, in the process of `hudi_writer`."""


def flink_range(spark, request):
    """The requested times of the instants of `start`..`end` (null: none given) by `IncrementalQueryAnalyzer`, with the
    settings of Flink's `IncrementalInputSplits`: both ends belong to the range."""
    hudi = spark._jvm.org.apache.hudi
    configuration = hudi.hadoop.fs.HadoopFSUtils.getStorageConf(spark._jsc.hadoopConfiguration())
    table = (
        hudi.common.table.HoodieTableMetaClient.builder().setBasePath(request["path"]).setConf(configuration).build()
    )
    builder = hudi.common.table.read.IncrementalQueryAnalyzer.builder().metaClient(table)
    builder = builder.startCompletionTime(request["start"]).endCompletionTime(request["end"])
    builder = builder.skipCompaction(True).skipClustering(True).skipInsertOverwrite(False)
    kind = getattr(hudi.common.table.log, "InstantRange$RangeType").CLOSED_CLOSED
    return sorted(builder.rangeType(kind).build().analyze().getInstantTimeList())


def option_names(spark, _request):
    """The names of all options of Hudi's Spark source and of its readers, alternative names too."""
    loaded = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    source = loaded.loadClass("org.apache.hudi.DataSourceReadOptions$")
    readers = loaded.loadClass("org.apache.hudi.common.config.HoodieReaderConfig")
    names = []
    for owner, instance in ((source, source.getField("MODULE$").get(None)), (readers, None)):
        for field in owner.getDeclaredFields():
            if field.getType().getSimpleName() == "ConfigProperty":
                field.setAccessible(True)
                option = field.get(instance)
                names += [option.key(), *option.getAlternatives()]
    return sorted(set(names))

"""Writes by Hudi's Java client, in the process of `hudi_writer`: Avro records with types that no Spark column has.

The client's jar is on the class path beside the bundle, which has its dependencies. Py4J calls it, so no second JVM
starts.
"""

import json

RECORD, SPACE = "history_record", "hoodie.history"
"""The name of the Avro record, as in Spark's writer for a table `history`."""


def java_write(spark, request):
    """One write: `rows` are records of `schema` in Avro's JSON encoding, `keys` their [record key, partition path].

    A DataFrame `data` instead of rows is converted to Avro as in Hudi's Spark writer. The first write creates the table
    with `properties`, those of hoodie.properties. `operation` is insert, upsert, bulk_insert or delete; `options` are
    those of the write config. `operations` are the kinds of the rows (I, -U, U, D), for a changelog.
    """
    jvm, path = spark._jvm, request["path"]
    hudi = jvm.org.apache.hudi
    storage = hudi.hadoop.fs.HadoopFSUtils.getStorageConf(spark._jsc.hadoopConfiguration())
    if request.get("properties"):
        builder = hudi.common.table.HoodieTableMetaClient.newTableBuilder()
        builder.fromProperties(_properties(jvm, request["properties"])).initTable(storage, path)
    if "data" in request:
        kind = request["data"]._jdf.schema()
        schema = hudi.HoodieSchemaConversionUtils.convertStructTypeToHoodieSchema(kind, RECORD, SPACE).toString()
        request = {**request, "schema": schema}
    config = hudi.config.HoodieWriteConfig.newBuilder().withPath(path)
    config = config.withProperties(_properties(jvm, request["options"])).withSchema(request["schema"])
    config = config.withEngineType(jvm.org.apache.hudi.common.engine.EngineType.JAVA).build()
    client = hudi.client.HoodieJavaWriteClient(hudi.client.common.HoodieJavaEngineContext(storage), config)
    try:
        instant = client.startCommit()
        statuses = _written(jvm, client, request, instant)
        failed = [status.getErrors().toString() for status in statuses if status.hasErrors()]
        if failed:
            raise RuntimeError(f"records that the Java client could not write: {failed[:3]}")
        if not client.commit(instant, statuses):
            raise RuntimeError(f"the Java client could not commit {instant}")
    finally:
        client.close()


def _written(jvm, client, request, instant):
    keys = [jvm.org.apache.hudi.common.model.HoodieKey(key, partition) for key, partition in request["keys"]]
    if request["operation"] == "delete":
        return client.delete(_list(jvm, keys), instant)
    model, none = jvm.org.apache.hudi.common.model, jvm.org.apache.hudi.common.util.Option.empty()
    kinds = [model.HoodieOperation.fromName(name) for name in request.get("operations", ())] or [None] * len(keys)
    records = [
        model.HoodieAvroIndexedRecord(key, record, kind, none, None, None)
        if kind is not None
        else model.HoodieAvroIndexedRecord(key, record)
        for key, record, kind in zip(keys, _records(jvm, request), kinds, strict=True)
    ]
    write = {"insert": client.insert, "upsert": client.upsert, "bulk_insert": client.bulkInsert}
    return write[request["operation"]](_list(jvm, records), instant)


def _records(jvm, request):
    if "data" in request:
        return list(jvm.org.apache.hudi.HoodieSparkUtils.createRdd(request["data"]._jdf, RECORD, SPACE).collect())
    return _parsed(jvm, request)


def _parsed(jvm, request):
    avro = jvm.org.apache.avro
    schema = avro.Schema.Parser().parse(request["schema"])
    reader = avro.generic.GenericDatumReader(schema)
    for row in request["rows"]:
        yield reader.read(None, avro.io.DecoderFactory.get().jsonDecoder(schema, json.dumps(row)))


def _list(jvm, values):
    listed = jvm.java.util.ArrayList()
    for value in values:
        listed.add(value)
    return listed


def _properties(jvm, options):
    properties = jvm.org.apache.hudi.common.config.TypedProperties()
    for name, value in options.items():
        properties.setProperty(name, value)
    return properties

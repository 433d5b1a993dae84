import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** Starts a name node at PORT and a data node, with their files in FOLDER, and prints the URI: Cluster.java FOLDER PORT. */
public class Cluster {
    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.set("hdfs.minidfs.basedir", arguments[0]);
        MiniDFSCluster.Builder builder = new MiniDFSCluster.Builder(settings);
        MiniDFSCluster cluster = builder.nameNodePort(Integer.parseInt(arguments[1])).numDataNodes(1).build();
        cluster.waitActive();
        System.out.println("at " + cluster.getURI());
        System.out.flush();
        Thread.sleep(Long.MAX_VALUE);
    }
}

import static org.codelibs.opensearch.runner.OpenSearchRunner.newConfigs;

import java.net.ServerSocket;
import org.codelibs.opensearch.runner.OpenSearchRunner;

/** Starts a node on free ports, with its data in a folder, and prints its address. */
public class Server {
    public static void main(String[] arguments) throws Exception {
        int http = freePort(), transport = freePort();
        OpenSearchRunner runner = new OpenSearchRunner();
        runner.onBuild((number, settings) -> {
            settings.put("network.host", "127.0.0.1");
            settings.put("http.port", http);
            settings.put("transport.port", transport);
            settings.put("cluster.max_shards_per_node", 5000);
            settings.put("cluster.routing.allocation.disk.threshold_enabled", false);
        });
        runner.build(newConfigs().basePath(arguments[0]).numOfNode(1).clusterName("watership-test").useLogger());
        runner.ensureYellow();
        System.out.println("http://127.0.0.1:" + http);
        Thread.sleep(Long.MAX_VALUE); // the threads of a node do not keep a process alive
    }

    private static int freePort() throws Exception {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }
}

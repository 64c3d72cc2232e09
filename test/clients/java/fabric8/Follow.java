import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.Pod;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.ConfigBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.stream.Collectors;

/**
 * Follows the pods with an informer of fabric8, from the server that the first argument names, or from a pod's own. `what`
 * on standard input is answered with what the informer holds, as a line of JSON on standard output; any other line is the
 * name of a ConfigMap to create.
 */
class Follow {
  public static void main(String[] arguments) throws Exception {
    var config =
        arguments[0].equals("in-cluster")
            ? new ConfigBuilder().build()
            : new ConfigBuilder(Config.empty()).withMasterUrl(arguments[0]).build();
    try (var client = new KubernetesClientBuilder().withConfig(config).build()) {
      var pods = client.pods().inAnyNamespace().withLimit(100L).inform();
      System.out.println("\"started\"");
      var lines = new BufferedReader(new InputStreamReader(System.in));
      String line;
      while ((line = lines.readLine()) != null) {
        if (!line.equals("what")) {
          System.out.println(create(client, line));
          continue;
        }
        var held = pods.getStore().list().stream().map(Follow::line).collect(Collectors.joining(","));
        System.out.println("[" + held + "]");
      }
    }
  }

  private static boolean create(KubernetesClient client, String name) {
    var map = new ConfigMapBuilder().withNewMetadata().withName(name).endMetadata().build();
    try {
      client.configMaps().inNamespace("default").resource(map).create();
      return true;
    } catch (KubernetesClientException error) {
      System.err.println(error);
      return false;
    }
  }

  private static String line(Pod pod) {
    var labels = pod.getMetadata().getLabels();
    return '"' + pod.getMetadata().getName() + ' ' + (labels == null ? null : labels.get("turn")) + '"';
  }
}

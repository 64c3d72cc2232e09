import io.kubernetes.client.informer.SharedInformerFactory;
import io.kubernetes.client.openapi.ApiClient;
import io.kubernetes.client.openapi.ApiException;
import io.kubernetes.client.openapi.apis.CoreV1Api;
import io.kubernetes.client.openapi.models.V1ConfigMap;
import io.kubernetes.client.openapi.models.V1ObjectMeta;
import io.kubernetes.client.openapi.models.V1Pod;
import io.kubernetes.client.openapi.models.V1PodList;
import io.kubernetes.client.util.Config;
import io.kubernetes.client.util.generic.GenericKubernetesApi;
import io.kubernetes.client.util.generic.options.ListOptions;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Collection;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/**
 * Follows the pods with client-java, from the server that the first argument names, or from a pod's own. The second
 * argument is `informer`, or `watch` for a list and watches of the generic client. `what` on standard input is answered with
 * the pods that it holds, as a line of JSON on standard output; any other line is the name of a ConfigMap to create.
 */
class Follow {
  public static void main(String[] arguments) throws Exception {
    var client = arguments[0].equals("in-cluster") ? Config.fromCluster() : Config.fromUrl(arguments[0]);
    client.setReadTimeout(0);
    var pods = arguments[1].equals("watch") ? watch(client) : inform(client);
    System.out.println("\"started\"");
    var lines = new BufferedReader(new InputStreamReader(System.in));
    String line;
    while ((line = lines.readLine()) != null) {
      if (!line.equals("what")) {
        System.out.println(create(client, line));
        continue;
      }
      var held = pods.get().stream().map(Follow::line).collect(Collectors.joining(","));
      System.out.println("[" + held + "]");
    }
    System.exit(0);
  }

  private static Supplier<Collection<V1Pod>> inform(ApiClient client) {
    var core = new CoreV1Api(client);
    var factory = new SharedInformerFactory(client);
    var informer =
        factory.sharedIndexInformerFor(
            parameters ->
                core.listPodForAllNamespaces()
                    .resourceVersion(parameters.resourceVersion)
                    .watch(parameters.watch)
                    .timeoutSeconds(parameters.timeoutSeconds)
                    .allowWatchBookmarks(parameters.watch)
                    .buildCall(null),
            V1Pod.class,
            V1PodList.class);
    factory.startAllRegisteredInformers();
    return () -> informer.getIndexer().list();
  }

  private static Supplier<Collection<V1Pod>> watch(ApiClient client) {
    var pods = new GenericKubernetesApi<>(V1Pod.class, V1PodList.class, "", "v1", "pods", client);
    var held = new ConcurrentHashMap<String, V1Pod>();
    var thread = new Thread(() -> follow(pods, held));
    thread.setDaemon(true);
    thread.start();
    return held::values;
  }

  /** Lists again only after an ERROR event; otherwise it resumes where the last watch ended. */
  private static void follow(GenericKubernetesApi<V1Pod, V1PodList> pods, Map<String, V1Pod> held) {
    String version = null;
    while (true) {
      try {
        if (version == null) {
          var list = pods.list().throwsApiException().getObject();
          held.clear();
          list.getItems().forEach(pod -> held.put(key(pod), pod));
          version = list.getMetadata().getResourceVersion();
        }
        var options = new ListOptions();
        options.setResourceVersion(version);
        try (var events = pods.watch(options)) {
          for (var event : events) {
            if (event.type.equals("ERROR")) {
              System.err.println(event.status);
              version = null;
              break;
            }
            if (event.type.equals("DELETED")) held.remove(key(event.object));
            else held.put(key(event.object), event.object);
            version = event.object.getMetadata().getResourceVersion();
          }
        }
      } catch (ApiException | IOException | RuntimeException error) {
        System.err.println(error);
        pause();
      }
    }
  }

  private static void pause() {
    try {
      Thread.sleep(200);
    } catch (InterruptedException error) {
      throw new IllegalStateException(error);
    }
  }

  private static boolean create(ApiClient client, String name) {
    var map = new V1ConfigMap().metadata(new V1ObjectMeta().name(name));
    try {
      new CoreV1Api(client).createNamespacedConfigMap("default", map).execute();
      return true;
    } catch (ApiException error) {
      System.err.println(error + " " + error.getResponseBody());
      return false;
    }
  }

  private static String key(V1Pod pod) {
    return pod.getMetadata().getNamespace() + '/' + pod.getMetadata().getName();
  }

  private static String line(V1Pod pod) {
    var labels = pod.getMetadata().getLabels();
    return '"' + pod.getMetadata().getName() + ' ' + (labels == null ? null : labels.get("turn")) + '"';
  }
}

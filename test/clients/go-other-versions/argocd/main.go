// Argo CD's engine: its cache of a whole cluster, and its sync, for the test that started this program. It takes its
// settings as in a pod.
//
// A line on standard input is answered with a line of JSON on standard output: `create NAME` syncs a ConfigMap in the
// namespace default, and anything else is answered with all objects in the cache.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/argoproj/gitops-engine/pkg/cache"
	"github.com/argoproj/gitops-engine/pkg/engine"
	"github.com/argoproj/gitops-engine/pkg/sync/common"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// excluded is what Argo CD excludes by default.
type excluded struct{}

func (excluded) IsExcludedResource(group, kind, _ string) bool {
	switch group {
	case "events.k8s.io", "metrics.k8s.io", "coordination.k8s.io", "authentication.k8s.io", "authorization.k8s.io":
		return true
	}
	return kind == "Event" || kind == "Endpoints" || kind == "EndpointSlice" || kind == "CertificateSigningRequest"
}

func main() {
	config, err := rest.InClusterConfig()
	if err != nil {
		panic(err)
	}
	clusters := cache.NewClusterCache(config,
		cache.SetSettings(cache.Settings{ResourcesFilter: excluded{}}),
		cache.SetPopulateResourceInfoHandler(func(object *unstructured.Unstructured, _ bool) (any, bool) {
			turn, found := object.GetLabels()["turn"]
			if !found {
				turn = "null"
			}
			return turn, false
		}),
	)
	fmt.Println(`"started"`)
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		answer(func() (any, error) {
			// As before each of Argo CD's operations.
			if err := clusters.EnsureSynced(); err != nil {
				return nil, err
			}
			if name, found := strings.CutPrefix(input.Text(), "create "); found {
				return create(clusters, name)
			}
			lines := []string{}
			for key, resource := range clusters.FindResources("") {
				lines = append(lines, fmt.Sprintf("%s/%s %s/%s %s", key.Group, key.Kind, key.Namespace, key.Name, resource.Info))
			}
			sort.Strings(lines)
			return lines, nil
		})
	}
}

func create(clusters cache.ClusterCache, name string) (bool, error) {
	// Argo CD, too, reads its settings for each operation: kubectl's part of the engine takes the token, not its file.
	config, err := rest.InClusterConfig()
	if err != nil {
		return false, err
	}
	operations := engine.NewEngine(config, clusters)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"metadata":   map[string]any{"name": name, "namespace": "default"},
	}}
	isManaged := func(*cache.Resource) bool { return false }
	results, err := operations.Sync(context.Background(), []*unstructured.Unstructured{object}, isManaged, "1", "default")
	if err != nil {
		return false, err
	}
	for _, result := range results {
		if result.Status != common.ResultCodeSynced {
			return false, fmt.Errorf("%s: %s", result.Status, result.Message)
		}
	}
	return len(results) == 1, nil
}

func answer(question func() (any, error)) {
	said, err := question()
	if err != nil {
		said = map[string]string{"Error": err.Error()}
	}
	line, _ := json.Marshal(said)
	fmt.Println(string(line))
}

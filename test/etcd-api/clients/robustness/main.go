// etcd's own robustness test of what distributary serves. Its recording clients run its traffic until the first line on standard
// input. The second is the data directory of the etcd behind, which has stopped by then: from the requests in its log, etcd's
// validators judge all that the clients saw. Each line is answered with a line of JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"go.etcd.io/etcd/tests/v3/robustness/client"
	"go.etcd.io/etcd/tests/v3/robustness/identity"
	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.etcd.io/etcd/tests/v3/robustness/traffic"
	"go.etcd.io/etcd/tests/v3/robustness/validate"
)

var kinds = map[string]struct {
	traffic.Traffic
	prefix string
}{
	"etcd":       {traffic.EtcdPutDeleteLease, "/keys/"},
	"kubernetes": {traffic.Kubernetes, "/registry/pods/"},
}

type counts struct{ Succeeded, Failed, Watches, Events, Progress int }

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

var answers = os.Stdout

func answer(value any) {
	fmt.Fprintln(answers, string(must(json.Marshal(value))))
}

func main() {
	// The validators print what differs.
	os.Stdout = os.Stderr
	ours, etcds, kind := []string{os.Args[1]}, []string{os.Args[2]}, kinds[os.Args[3]]
	// Some watches last through a restart, and a request waits for the end of one.
	traffic.WatchTimeout, traffic.RequestTimeout = 3*time.Second, time.Second
	logs, ctx := must(zap.NewDevelopment()), context.Background()
	ids, begin := identity.NewIDProvider(), time.Now()
	clients, collectors := client.NewSet(ids, begin), client.NewSet(ids, begin)
	check(traffic.CheckEmptyDatabaseAtStart(ctx, logs, ours, clients))

	// The validators need all events. Here nobody may watch everything, so this watch is one of etcd itself.
	lastRevision, collected := make(chan int64, 1), make(chan error, 1)
	go func() {
		collected <- client.CollectClusterWatchEvents(ctx, client.CollectClusterWatchEventsParam{
			Lg: logs, Endpoints: etcds, MaxRevisionChan: lastRevision, ClientSet: collectors,
		})
	}()
	finish, limiter := make(chan struct{}), rate.NewLimiter(200, 200)
	var running sync.WaitGroup
	load, keys, storage := traffic.KeyValueMedium, traffic.NewKeyStore(10, kind.prefix), traffic.NewKubernetesStorage()
	// Half of the clients are etcd's own, so that what they write must be seen here.
	both := slices.Concat(ours, etcds)
	check(traffic.SimulateKeyValueTraffic(ctx, &running, &load, both, clients, kind, traffic.RunTrafficLoopParam{
		QPSLimiter: limiter, IDs: ids, LeaseIDStorage: identity.NewLeaseIDStorage(), KeyStore: keys, Storage: storage, Finish: finish,
		NonUniqueRequestConcurrencyLimiter: traffic.NewConcurrencyLimiter(load.MaxNonUniqueRequestConcurrency),
	}))
	watches := traffic.WatchDefault
	check(traffic.SimulateWatchTraffic(ctx, &running, &watches, ours, clients, kind, traffic.RunWatchLoopParam{
		Config: watches, QPSLimiter: limiter, KeyStore: keys, Storage: storage, Finish: finish, Logger: logs,
	}))
	compaction := traffic.Compaction{Period: time.Second}
	check(traffic.SimulateCompactionTraffic(ctx, &running, &compaction, ours, clients, kind, traffic.RunCompactLoopParam{
		Period: compaction.Period, Finish: finish,
	}))
	follower := must(clients.NewClient(ours))
	running.Go(func() { follow(ctx, follower, kind.prefix, finish) })

	answer("ready")
	lines := bufio.NewScanner(os.Stdin)
	lines.Scan()
	close(finish)
	running.Wait()
	// The validators require that the last write succeeds.
	must(must(clients.NewClient(ours)).Put(ctx, "tombstone", "true"))
	seen := clients.Reports()
	lastRevision <- report.OperationsMaxRevision(seen)
	answer(count(seen))

	check(<-collected)
	seen = slices.Concat(seen, collectors.Reports())
	lines.Scan()
	persisted := must(report.PersistedRequests(logs, []string{lines.Text()}))
	config := validate.Config{ExpectRevisionUnique: kind.ExpectUniqueRevision()}
	verdict := validate.ValidateAndReturnVisualize(logs, config, seen, persisted, time.Minute)
	answer(map[string]validate.Result{
		"assumptions": verdict.Assumptions, "linearization": verdict.Linearization.Result,
		"watch": verdict.Watch, "serializable": verdict.Serializable,
	})
}

// follow watches through all restarts, and asks for progress all the time.
func follow(ctx context.Context, c *client.RecordingClient, prefix string, finish <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	next := int64(2)
	for {
		watch, open := c.Watch(ctx, prefix, next, true, true, true), true
		for open {
			select {
			case <-finish:
				return
			case <-ticker.C:
				_ = c.RequestProgress(ctx)
			case response, ok := <-watch:
				open = ok
				next = max(next, response.CompactRevision)
				if events := response.Events; len(events) > 0 {
					next = events[len(events)-1].Kv.ModRevision + 1
				}
			}
		}
	}
}

func count(reports []report.ClientReport) (all counts) {
	for _, one := range reports {
		for _, operation := range one.KeyValue {
			if operation.Output.(model.MaybeEtcdResponse).Error == "" {
				all.Succeeded++
			} else {
				all.Failed++
			}
		}
		all.Watches += len(one.Watch)
		for _, watch := range one.Watch {
			for _, response := range watch.Responses {
				all.Events += len(response.Events)
				if response.IsProgressNotify {
					all.Progress++
				}
			}
		}
	}
	return all
}

// Informers, writers and leader election of an untouched client-go, for the test that started this program.
//
// Reflectors follow the pods, those of them that the second argument names: typed (protobuf), dynamic (JSON) and metadata only. With KUBE_WATCHLIST_INCONSISTENCY_DETECTOR
// each compares the initial events of its watch with an exact list, and with KUBE_CACHE_MUTATION_DETECTOR each object with what it
// was; both panic on a difference. A command comes as a line on standard input, its answer is a line of JSON on standard output.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
)

var pods = corev1.SchemeGroupVersion.WithResource("pods")

// requests counts what the reflectors ask for; the exact lists of the detectors are counted for themselves.
type requests struct {
	Lists, WatchLists, Watches, Exact, Gone atomic.Int64
	next                                    http.RoundTripper
}

func (r *requests) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	switch {
	case request.Method != http.MethodGet || !strings.HasSuffix(request.URL.Path, "/pods"):
	case query.Get("watch") != "" && query.Get("sendInitialEvents") == "true":
		r.WatchLists.Add(1)
	case query.Get("watch") != "":
		r.Watches.Add(1)
	case query.Get("resourceVersionMatch") == "Exact":
		r.Exact.Add(1)
	default:
		r.Lists.Add(1)
	}
	response, err := r.next.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusGone {
		r.Gone.Add(1)
	}
	return response, err
}

// follower is one informer, and what a handler has seen of it.
type follower struct {
	name     string
	informer cache.SharedIndexInformer
	list     func(context.Context) (runtime.Object, error)
	counted  *requests

	mutex sync.Mutex
	last  map[string]int64
	stale []string
}

func (f *follower) saw(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	one := object.(metav1.Object)
	version, _ := strconv.ParseInt(one.GetResourceVersion(), 10, 64)
	f.mutex.Lock()
	defer f.mutex.Unlock()
	key := one.GetNamespace() + "/" + one.GetName()
	if version < f.last[key] {
		f.stale = append(f.stale, fmt.Sprintf("%s went from %d back to %d", key, f.last[key], version))
	}
	f.last[key] = version
}

// digest is one for equal sets of names, versions and labels.
func digest(objects []metav1.Object) string {
	lines := make([]string, 0, len(objects))
	for _, one := range objects {
		lines = append(lines, fmt.Sprintf("%s/%s %s %s %v", one.GetNamespace(), one.GetName(), one.GetUID(), one.GetResourceVersion(), one.GetLabels()))
	}
	sort.Strings(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:8])
}

func (f *follower) held() []metav1.Object {
	var objects []metav1.Object
	for _, one := range f.informer.GetStore().List() {
		objects = append(objects, one.(metav1.Object))
	}
	return objects
}

type answer struct {
	Name                                    string
	Objects                                 int
	Held, Listed                            string
	Stale                                   []string
	Lists, WatchLists, Watches, Exact, Gone int64
}

func (f *follower) compare(ctx context.Context) (answer, error) {
	before := f.counted.Lists.Load()
	list, err := f.list(ctx)
	if err != nil {
		return answer{}, err
	}
	f.counted.Lists.Add(before - f.counted.Lists.Load())
	items, err := meta.ExtractList(list)
	if err != nil {
		return answer{}, err
	}
	var listed []metav1.Object
	for _, item := range items {
		listed = append(listed, item.(metav1.Object))
	}
	held := f.held()
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return answer{
		Name: f.name, Objects: len(held), Held: digest(held), Listed: digest(listed), Stale: f.stale,
		Lists: f.counted.Lists.Load(), WatchLists: f.counted.WatchLists.Load(), Watches: f.counted.Watches.Load(),
		Exact: f.counted.Exact.Load(), Gone: f.counted.Gone.Load(),
	}, nil
}

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	base := settings(os.Args[1])
	base.QPS, base.Burst = 1000, 1000
	followers := crowd(ctx, base, strings.Split(os.Args[2], ","), os.Args[3:])
	fmt.Println(`"synced"`)
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		command, argument, _ := strings.Cut(input.Text(), " ")
		result, err := perform(ctx, base, followers, command, argument)
		if err != nil {
			result = map[string]string{"Error": err.Error()}
		}
		line, _ := json.Marshal(result)
		fmt.Println(string(line))
	}
}

// crowd follows as many times as the argument says, each time with connections of its own; once without an argument.
func crowd(ctx context.Context, base *rest.Config, names, copies []string) []*follower {
	if len(copies) == 0 {
		return follow(ctx, base, names)
	}
	count, err := strconv.Atoi(copies[0])
	if err != nil {
		panic(err)
	}
	all := make([][]*follower, count)
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() {
			own := rest.CopyConfig(base)
			// client-go shares connections between configurations with the same dialer.
			own.Dial = (&net.Dialer{}).DialContext
			all[i] = follow(ctx, own, names)
		})
	}
	group.Wait()
	return slices.Concat(all...)
}

func settings(server string) *rest.Config {
	if server != "in-cluster" {
		return &rest.Config{Host: server, TLSClientConfig: rest.TLSClientConfig{Insecure: strings.HasPrefix(server, "https:")}}
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		panic(err)
	}
	return config
}

func follow(ctx context.Context, base *rest.Config, names []string) []*follower {
	config := func(accept string) (*rest.Config, *requests) {
		counted := &requests{}
		one := rest.CopyConfig(base)
		one.AcceptContentTypes = accept
		one.Wrap(func(next http.RoundTripper) http.RoundTripper {
			counted.next = next
			return counted
		})
		return one, counted
	}
	typedConfig, typedCount := config("application/vnd.kubernetes.protobuf,application/json")
	typed := kubernetes.NewForConfigOrDie(typedConfig)
	dynamicConfig, dynamicCount := config("")
	untyped := dynamic.NewForConfigOrDie(dynamicConfig)
	metadataConfig, metadataCount := config("")
	partial := metadata.NewForConfigOrDie(metadata.ConfigFor(metadataConfig))
	all := []*follower{
		{
			name:     "typed",
			informer: informers.NewSharedInformerFactory(typed, 0).Core().V1().Pods().Informer(),
			counted:  typedCount,
			list: func(ctx context.Context) (runtime.Object, error) {
				return typed.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
			},
		},
		{
			name:     "dynamic",
			informer: dynamicinformer.NewDynamicSharedInformerFactory(untyped, 0).ForResource(pods).Informer(),
			counted:  dynamicCount,
			list: func(ctx context.Context) (runtime.Object, error) {
				return untyped.Resource(pods).List(ctx, metav1.ListOptions{})
			},
		},
		{
			name:     "metadata",
			informer: metadatainformer.NewSharedInformerFactory(partial, 0).ForResource(pods).Informer(),
			counted:  metadataCount,
			list: func(ctx context.Context) (runtime.Object, error) {
				return partial.Resource(pods).List(ctx, metav1.ListOptions{})
			},
		},
	}
	var followers []*follower
	for _, one := range all {
		if slices.Contains(names, one.name) {
			followers = append(followers, one)
		}
	}
	for _, one := range followers {
		one.last = map[string]int64{}
		handler := cache.ResourceEventHandlerFuncs{
			AddFunc:    one.saw,
			UpdateFunc: func(_, object any) { one.saw(object) },
			DeleteFunc: one.saw,
		}
		if _, err := one.informer.AddEventHandler(handler); err != nil {
			panic(err)
		}
		go one.informer.Run(ctx.Done())
	}
	for _, one := range followers {
		if !cache.WaitForCacheSync(ctx.Done(), one.informer.HasSynced) {
			panic(one.name + " never synced")
		}
	}
	return followers
}

func perform(ctx context.Context, base *rest.Config, followers []*follower, command, argument string) (any, error) {
	switch command {
	case "holds":
		for _, one := range followers {
			if _, exists, _ := one.informer.GetStore().GetByKey(argument); !exists {
				return false, nil
			}
		}
		return true, nil
	case "compare":
		var answers []answer
		for _, one := range followers {
			result, err := one.compare(ctx)
			if err != nil {
				return nil, err
			}
			answers = append(answers, result)
		}
		return answers, nil
	case "what":
		return what(followers, argument)
	case "create":
		created := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: argument}}
		_, err := kubernetes.NewForConfigOrDie(base).CoreV1().ConfigMaps("default").Create(ctx, created, metav1.CreateOptions{})
		return true, err
	case "write":
		return write(ctx, base, 8, 25)
	case "elect":
		return elect(ctx, base)
	case "hold":
		return hold(ctx, base)
	case "lost":
		return lost.Load(), nil
	}
	return nil, fmt.Errorf("no command is called %q", command)
}

// what has a line for each pod of one follower: its name and turn.
func what(followers []*follower, name string) (any, error) {
	lines := []string{}
	for _, one := range followers {
		if one.name != name {
			continue
		}
		for _, held := range one.held() {
			turn, ok := held.GetLabels()["turn"]
			if !ok {
				turn = "null"
			}
			lines = append(lines, held.GetName()+" "+turn)
		}
	}
	return lines, nil
}

// write lets several writers count up one number, each with a client of its own, as controllers do.
func write(ctx context.Context, base *rest.Config, writers, times int) (any, error) {
	first := kubernetes.NewForConfigOrDie(base).CoreV1().ConfigMaps("default")
	counter := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "counter"}, Data: map[string]string{"n": "0"}}
	if _, err := first.Create(ctx, counter, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	patience := wait.Backoff{Steps: 1000, Duration: 10 * time.Millisecond, Factor: 1, Jitter: 1}
	var conflicts atomic.Int64
	failures := make(chan error, writers)
	for range writers {
		go func() {
			mine := kubernetes.NewForConfigOrDie(base).CoreV1().ConfigMaps("default")
			for range times {
				err := retry.RetryOnConflict(patience, func() error {
					held, err := mine.Get(ctx, "counter", metav1.GetOptions{})
					if err != nil {
						return err
					}
					n, _ := strconv.Atoi(held.Data["n"])
					held.Data["n"] = strconv.Itoa(n + 1)
					if _, err = mine.Update(ctx, held, metav1.UpdateOptions{}); err != nil {
						conflicts.Add(1)
					}
					return err
				})
				if err != nil {
					failures <- err
					return
				}
			}
			failures <- nil
		}()
	}
	for range writers {
		if err := <-failures; err != nil {
			return nil, err
		}
	}
	held, err := first.Get(ctx, "counter", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return map[string]any{"Counter": held.Data["n"], "Expected": strconv.Itoa(writers * times), "Conflicts": conflicts.Load()}, nil
}

// elect has two candidates for one lease: the first leads until it steps down, then the second does, and never both.
func elect(ctx context.Context, base *rest.Config) (any, error) {
	client := kubernetes.NewForConfigOrDie(base)
	var leading atomic.Int64
	var both atomic.Bool
	turns := make(chan string, 2)
	candidate := func(ctx context.Context, name string) {
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "lock"},
				Client:     client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: name},
			},
			ReleaseOnCancel: true,
			LeaseDuration:   15 * time.Second,
			RenewDeadline:   10 * time.Second,
			RetryPeriod:     200 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(lead context.Context) {
					if leading.Add(1) > 1 {
						both.Store(true)
					}
					turns <- name
					<-lead.Done()
					leading.Add(-1)
				},
				OnStoppedLeading: func() {},
			},
		})
	}
	firstCtx, stepDown := context.WithCancel(ctx)
	defer stepDown()
	secondCtx, end := context.WithCancel(ctx)
	defer end()
	go candidate(firstCtx, "first")
	var order []string
	if err := awaitTurn(turns, &order); err != nil {
		return nil, err
	}
	go candidate(secondCtx, "second")
	time.Sleep(time.Second)
	stepDown()
	if err := awaitTurn(turns, &order); err != nil {
		return nil, err
	}
	return map[string]any{"Order": order, "Both": both.Load()}, nil
}

// lost is whether the lease that hold took was lost.
var lost atomic.Bool

// hold takes a lease at client-go's defaults and keeps it as long as it can.
func hold(ctx context.Context, base *rest.Config) (any, error) {
	client := kubernetes.NewForConfigOrDie(base)
	turns := make(chan string, 1)
	go leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "held"},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "holder"},
		},
		LeaseDuration: 15 * time.Second,
		RenewDeadline: 10 * time.Second,
		RetryPeriod:   2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { turns <- "holder" },
			OnStoppedLeading: func() { lost.Store(true) },
		},
	})
	var order []string
	return map[string]bool{"Leads": true}, awaitTurn(turns, &order)
}

func awaitTurn(turns <-chan string, order *[]string) error {
	select {
	case name := <-turns:
		*order = append(*order, name)
		return nil
	case <-time.After(30 * time.Second):
		return fmt.Errorf("nobody leads within 30 s, after %v", *order)
	}
}

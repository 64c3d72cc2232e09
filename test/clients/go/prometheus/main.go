// Prometheus' own discovery of Kubernetes, in its six roles or those that the arguments after the first name, for the test
// that started this program. If the server in the first is `in-cluster`, it takes its settings as in a pod.
//
// A line on standard input is answered with what every role has found, as a line of JSON on standard output.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sort"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/kubernetes"
	"github.com/prometheus/prometheus/discovery/targetgroup"
)

var allRoles = []kubernetes.Role{
	kubernetes.RoleNode, kubernetes.RolePod, kubernetes.RoleService,
	kubernetes.RoleEndpoint, kubernetes.RoleEndpointSlice, kubernetes.RoleIngress,
}

// found is what one role has found, by the source of each group.
type found struct {
	mutex  sync.Mutex
	groups map[string]*targetgroup.Group
}

func (f *found) take(groups []*targetgroup.Group) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, group := range groups {
		if len(group.Targets) == 0 && len(group.Labels) == 0 {
			delete(f.groups, group.Source)
		} else {
			f.groups[group.Source] = group
		}
	}
}

func (f *found) lines(role string) []string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	seen := map[string]bool{}
	for _, group := range f.groups {
		for _, target := range group.Targets {
			of := func(what string) string {
				for name, value := range target.Merge(group.Labels) {
					if string(name) == "__meta_kubernetes_"+role+"_"+what {
						return string(value)
					}
				}
				return "?"
			}
			seen[role+" "+of("name")+" "+of("label_turn")] = true
		}
	}
	var lines []string
	for line := range seen {
		lines = append(lines, line)
	}
	return lines
}

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := &url.URL{}
	if os.Args[1] != "in-cluster" {
		var err error
		if server, err = url.Parse(os.Args[1]); err != nil {
			panic(err)
		}
	}
	roles := allRoles
	if names := os.Args[2:]; len(names) > 0 {
		roles = nil
		for _, name := range names {
			roles = append(roles, kubernetes.Role(name))
		}
	}
	all := map[string]*found{}
	for _, role := range roles {
		one := &found{groups: map[string]*targetgroup.Group{}}
		all[string(role)] = one
		if err := discover(ctx, server, role, one); err != nil {
			panic(err)
		}
	}
	fmt.Println(`"started"`)
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		lines := []string{}
		for role, one := range all {
			lines = append(lines, one.lines(role)...)
		}
		sort.Strings(lines)
		line, _ := json.Marshal(lines)
		fmt.Println(string(line))
	}
}

func discover(ctx context.Context, server *url.URL, role kubernetes.Role, one *found) error {
	config := kubernetes.DefaultSDConfig
	if server.Host != "" {
		config.APIServer = promconfig.URL{URL: server}
	}
	config.Role = role
	registry := prometheus.NewRegistry()
	refresh := discovery.NewRefreshMetrics(registry)
	metrics := config.NewDiscovererMetrics(registry, refresh)
	if err := metrics.Register(); err != nil {
		return err
	}
	discoverer, err := config.NewDiscoverer(discovery.DiscovererOptions{
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Metrics: metrics,
		SetName: string(role),
	})
	if err != nil {
		return err
	}
	updates := make(chan []*targetgroup.Group)
	go discoverer.Run(ctx, updates)
	go func() {
		for groups := range updates {
			one.take(groups)
		}
	}()
	return nil
}

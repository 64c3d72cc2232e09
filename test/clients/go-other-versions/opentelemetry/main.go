// OpenTelemetry's collector with its receiver k8s_cluster and its processor k8s_attributes, for the test that started this
// program. Both take their settings as in a pod.
//
// A line on standard input is answered with the pods in the newest metrics, each with its label `turn`, which the
// processor adds, as a line of JSON on standard output.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"sync/atomic"

	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/k8sattributesprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/k8sclusterreceiver"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

const config = `yaml:
receivers:
  k8s_cluster: {collection_interval: 1s}
processors:
  k8s_attributes:
    extract: {labels: [{tag_name: turn, key: turn, from: pod}]}
    pod_association: [{sources: [{from: resource_attribute, name: k8s.pod.uid}]}]
exporters:
  newest: {}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    metrics: {receivers: [k8s_cluster], processors: [k8s_attributes], exporters: [newest]}
`

// newest holds the last metrics, and is their exporter.
type newest struct {
	component.StartFunc
	component.ShutdownFunc
	lines atomic.Pointer[[]string]
}

func (*newest) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (n *newest) ConsumeMetrics(_ context.Context, metrics pmetric.Metrics) error {
	lines := []string{}
	for _, resource := range metrics.ResourceMetrics().All() {
		attributes := resource.Resource().Attributes()
		name, isPod := attributes.Get("k8s.pod.name")
		if _, isContainer := attributes.Get("k8s.container.name"); !isPod || isContainer {
			continue
		}
		turn := "null"
		if label, found := attributes.Get("turn"); found {
			turn = label.Str()
		}
		lines = append(lines, name.Str()+" "+turn)
	}
	sort.Strings(lines)
	n.lines.Store(&lines)
	return nil
}

func main() {
	held := &newest{}
	kind := component.MustNewType("newest")
	exporters := exporter.NewFactory(kind, func() component.Config { return &struct{}{} }, exporter.WithMetrics(
		func(context.Context, exporter.Settings, component.Config) (exporter.Metrics, error) { return held, nil },
		component.StabilityLevelStable,
	))
	cluster, attributes := k8sclusterreceiver.NewFactory(), k8sattributesprocessor.NewFactory()
	collector, err := otelcol.NewCollector(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "otelcol", Version: "0.149.0"},
		Factories: func() (otelcol.Factories, error) {
			return otelcol.Factories{
				Receivers:  map[component.Type]receiver.Factory{cluster.Type(): cluster},
				Processors: map[component.Type]processor.Factory{attributes.Type(): attributes},
				Exporters:  map[component.Type]exporter.Factory{kind: exporters},
				Telemetry:  otelconftelemetry.NewFactory(),
			}, nil
		},
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs:              []string{config},
			ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
		}},
	})
	if err != nil {
		panic(err)
	}
	go func() {
		if err := collector.Run(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}()
	fmt.Println(`"started"`)
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		lines := held.lines.Load()
		if lines == nil {
			lines = &[]string{}
		}
		line, _ := json.Marshal(lines)
		fmt.Println(string(line))
	}
}

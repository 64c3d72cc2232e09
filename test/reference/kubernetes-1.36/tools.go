//go:build tools

// Package kubernetes names the programs of Kubernetes that the comparison runs, so that go.mod and go.sum hold all they need.
package kubernetes

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
)

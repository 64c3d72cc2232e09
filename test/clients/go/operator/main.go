// An operator of an untouched controller-runtime, for the test that started this program.
//
// For each Widget it applies a ConfigMap of the same name (server-side), keeps `status.size`, and cleans up behind a finalizer. A
// line on standard input is answered with what the manager's cache holds, as a line of JSON on standard output.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "example.com/cleanup"

var widgetKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

func newWidget() *unstructured.Unstructured {
	widget := &unstructured.Unstructured{}
	widget.SetGroupVersionKind(widgetKind)
	return widget
}

type reconciler struct{ client.Client }

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	widget := newWidget()
	if err := r.Get(ctx, request.NamespacedName, widget); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if widget.GetDeletionTimestamp() != nil {
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
		if err := client.IgnoreNotFound(r.Delete(ctx, made)); err != nil {
			return ctrl.Result{}, err
		}
		if !controllerutil.RemoveFinalizer(widget, finalizer) {
			return ctrl.Result{}, nil
		}
		return again(r.Update(ctx, widget))
	}
	if controllerutil.AddFinalizer(widget, finalizer) {
		if err := r.Update(ctx, widget); err != nil {
			return again(err)
		}
	}
	size, _, _ := unstructured.NestedInt64(widget.Object, "spec", "size")
	owner := metav1apply.OwnerReference().WithAPIVersion(widgetKind.GroupVersion().String()).WithKind(widgetKind.Kind).
		WithName(widget.GetName()).WithUID(widget.GetUID()).WithController(true)
	wanted := corev1apply.ConfigMap(request.Name, request.Namespace).
		WithOwnerReferences(owner).WithData(map[string]string{"size": strconv.FormatInt(size, 10)})
	if err := r.Apply(ctx, wanted, client.FieldOwner("operator"), client.ForceOwnership); err != nil {
		return again(err)
	}
	if known, found, _ := unstructured.NestedInt64(widget.Object, "status", "size"); found && known == size {
		return ctrl.Result{}, nil
	}
	if err := unstructured.SetNestedField(widget.Object, size, "status", "size"); err != nil {
		return ctrl.Result{}, err
	}
	return again(r.Status().Update(ctx, widget))
}

// again restarts the work when another writer was quicker.
func again(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: 1}, nil
	}
	return ctrl.Result{}, err
}

func held(ctx context.Context, reader client.Reader) ([]string, error) {
	widgets := &unstructured.UnstructuredList{}
	widgets.SetGroupVersionKind(widgetKind.GroupVersion().WithKind("WidgetList"))
	if err := reader.List(ctx, widgets); err != nil {
		return nil, err
	}
	maps := &corev1.ConfigMapList{}
	if err := reader.List(ctx, maps); err != nil {
		return nil, err
	}
	lines := []string{}
	for _, one := range widgets.Items {
		size, _, _ := unstructured.NestedInt64(one.Object, "spec", "size")
		status, _, _ := unstructured.NestedInt64(one.Object, "status", "size")
		lines = append(lines, fmt.Sprintf("widget %s %d %d %v", one.GetName(), size, status, one.GetFinalizers()))
	}
	for _, one := range maps.Items {
		lines = append(lines, fmt.Sprintf("configmap %s %s", one.Name, one.Data["size"]))
	}
	return lines, nil
}

func main() {
	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	ctx := ctrl.SetupSignalHandler()
	config := &rest.Config{Host: os.Args[1], BearerToken: os.Args[2]}
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		panic(err)
	}
	err = ctrl.NewControllerManagedBy(manager).Named("widget").For(newWidget()).Owns(&corev1.ConfigMap{}).
		Complete(&reconciler{manager.GetClient()})
	if err != nil {
		panic(err)
	}
	go func() {
		if err := manager.Start(ctx); err != nil {
			panic(err)
		}
	}()
	if !manager.GetCache().WaitForCacheSync(ctx) {
		panic("the cache never synced")
	}
	fmt.Println(`"started"`)
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var result any
		result, err := held(ctx, manager.GetCache())
		if err != nil {
			result = map[string]string{"Error": err.Error()}
		}
		line, _ := json.Marshal(result)
		fmt.Println(string(line))
	}
}

// A client-go reflector as the judge of the server: with KUBE_WATCHLIST_INCONSISTENCY_DETECTOR=true it compares what the
// initial events of a watch gave it with an exact list, and panics on a difference. Two informers of pods run while the
// test that started this writes; what they hold is printed, a line per change of count, until standard input ends.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func main() {
	config := &rest.Config{Host: os.Args[1], QPS: 100, Burst: 100}
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	typed := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0)
	pods := typed.Core().V1().Pods().Informer()
	plain := *config
	plain.AcceptContentTypes = ""
	untyped := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(&plain), 0)
	maps := untyped.ForResource(corev1.SchemeGroupVersion.WithResource("configmaps")).Informer()

	var deleted atomic.Int64
	count := cache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { deleted.Add(1) }}
	if _, err := pods.AddEventHandler(count); err != nil {
		panic(err)
	}
	typed.Start(ctx.Done())
	untyped.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced, maps.HasSynced) {
		panic("no sync")
	}
	fmt.Println("synced")
	go func() {
		last := ""
		for ctx.Err() == nil {
			ready := 0
			for _, object := range pods.GetStore().List() {
				if object.(metav1.Object).GetLabels()["turn"] == "last" {
					ready++
				}
			}
			line := fmt.Sprintf("pods=%d last=%d deleted=%d configmaps=%d", len(pods.GetStore().List()), ready, deleted.Load(), len(maps.GetStore().List()))
			if line != last {
				fmt.Println(line)
				last = line
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	bufio.NewReader(os.Stdin).ReadString(0)
}
